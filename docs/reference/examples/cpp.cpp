// stacksplice.hpp: borders in both directions, errors with stacks, traces.
#include <stacksplice/script.h>
#include <stacksplice/stacksplice.hpp>

#include <cassert>
#include <cstdio>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>

// ---- Borders ----------------------------------------------------------------------------------

static double rate(const std::string &currency)
{
    if (currency != "EUR")
        throw stacksplice::error(E_BOUNDS, "no rate for " + currency);
    return 1;
}

// Other languages call this: no exception leaves it, and the HRESULT says what happened.
extern "C" HRESULT host_rate(const char *currency, double *result)
{
    return stacksplice::guard([&] { return rate(currency); }, *result);
}

// A function that has an HRESULT of its own to return.
extern "C" HRESULT host_has_rate(const char *currency)
{
    return stacksplice::guard(
        [&] { return stacksplice::hresult(*currency == 'E' ? S_OK : S_FALSE); });
}

// The other direction: a failed HRESULT is thrown.
static double price(const char *currency)
{
    double found = 0;

    stacksplice::check(host_rate(currency, &found));
    return 25 * found;
}

// The same for a call whose other results are successes, too.
static void stop_with(HRESULT hr)
{
    if (hr != S_OK)
        stacksplice::throw_error(hr);
}

// In a handler that is there already.
extern "C" HRESULT host_price(const char *currency, double *result)
{
    try {
        *result = price(currency);
        return S_OK;
    } catch (...) {
        return stacksplice::originate_current();
    }
}

// An exception that another thread has caught.
static HRESULT leave(const std::exception_ptr &caught)
{
    return stacksplice::originate(caught);
}

// ---- Errors -----------------------------------------------------------------------------------

// An error class of one's own.
class no_rate : public stacksplice::error
{
  public:
    explicit no_rate(const std::string &currency)
        : stacksplice::error(E_BOUNDS, "no rate for " + currency)
    {
    }
};

static void print(const stacksplice::error &e)
{
    std::cerr << e.text(); // for people
    std::cerr << e.json() << '\n';
    std::cerr << e.stack().size() << " frames, " << e.code().message() << '\n';
}

// Errors of any version of the library, in any binary.
static HRESULT hresult_of(const std::runtime_error &caught)
{
    const auto *known = dynamic_cast<const stacksplice::any_error *>(&caught);

    return known ? known->hresult() : E_FAIL;
}

static bool is_denied(HRESULT hr)
{
    return stacksplice::to_error_code(hr) == std::errc::permission_denied;
}

static HRESULT from_system(int number)
{
    return stacksplice::to_hresult({number, std::system_category()});
}

static bool has_hresult(const std::error_code &code)
{
    return code.category() == stacksplice::hresult_category();
}

// Clean-up while an error is on its way: what it does to the thread's error is undone.
class booking
{
  public:
    ~booking()
    {
        const stacksplice::saved_error saved;

        RoClearError();
    }
};

// ---- Traces -----------------------------------------------------------------------------------

// Any exception keeps the stack of its throw if it leaves a traced call.
static int at(const std::map<std::string, int> &rates, const std::string &currency)
{
    return stacksplice::traced([&] { return rates.at(currency); });
}

static void print_trace()
{
    try {
        at({}, "XXX");
    } catch (const std::out_of_range &) {
        const stacksplice::trace trace = stacksplice::trace::current();

        for (const stacksplice::frame &frame : trace)
            std::cerr << frame.language << ' ' << frame.function << '\n';
        std::cerr << trace.frames().size() << " frames\n" << trace.text() << trace.json() << '\n';
    }
}

static bool has_trace(const std::exception_ptr &caught)
{
    const stacksplice::trace trace(caught);

    return !trace.empty() && trace.begin() != trace.end() && trace.info();
}

// From now on what nobody catches is reported, too.
static void report_uncaught()
{
    stacksplice::install_terminate_handler();
}

// ---- Interfaces -------------------------------------------------------------------------------

using stacksplice::com_ptr;

// The caller's reference is released at the end of the scope.
static stacksplice::com_ptr<IRestrictedErrorInfo> take_error()
{
    stacksplice::com_ptr<IRestrictedErrorInfo> error;

    (void)GetRestrictedErrorInfo(error.put());
    return error;
}

static com_ptr<IUnknown> language_exception(const com_ptr<IRestrictedErrorInfo> &error)
{
    const auto info = error.as<ILanguageExceptionErrorInfo>(IID_ILanguageExceptionErrorInfo);
    com_ptr<IUnknown> exception;

    if (info)
        (void)info->GetLanguageException(exception.put());
    return exception;
}

// A pointer that is lent, and one that is given away.
static IUnknown *hand_over(IUnknown *lent)
{
    auto mine = com_ptr<IUnknown>::copy(lent), other = com_ptr<IUnknown>::attach(nullptr);

    mine.swap(other);
    assert(!mine && other.get() == lent);
    return other.detach();
}

int main()
{
    double result = 0;

    report_uncaught();
    assert(host_rate("EUR", &result) == S_OK && result == 1 && host_has_rate("XXX") == S_FALSE);
    assert(host_price("XXX", &result) == E_BOUNDS);
    const auto error = take_error();
    const auto exception = language_exception(error);
    if (exception)
        hand_over(exception.get())->Release();
    try {
        const booking unfinished;

        stop_with(leave(std::make_exception_ptr(no_rate("XXX"))));
    } catch (const stacksplice::error &e) {
        print(e);
        assert(hresult_of(e) == E_BOUNDS && has_hresult(e.code()) && e.info());
        assert(has_trace(std::current_exception()));
    }
    assert(is_denied(E_ACCESSDENIED) && is_denied(from_system(EACCES)));
    print_trace();
    std::puts("\nok");
}
