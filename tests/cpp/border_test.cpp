// stacksplice.hpp: every exception out, every error in, identity, causes, clean-up.
#include <cerrno>
#include <functional>
#include <ios>
#include <memory>
#include <new>
#include <variant>

#include "shared.hpp" // behind the library, which has a function "fail"

namespace
{

// Guard a throw of VALUE, look at the error, leave the slot empty.
template <typename Value> HRESULT guarded(const Value &value, std::string *message = nullptr)
{
    const HRESULT hr = ss::guard([&] { throw value; });
    HRESULT stored = S_OK;
    const auto info = peek();

    assert_true(static_cast<bool>(info));
    const std::string text = ss::detail::details_of(info, &stored);
    assert_int_equal(stored, hr);
    if (message)
        *message = text;
    RoClearError();
    return hr;
}

struct own : std::runtime_error {
    explicit own(int number) : std::runtime_error("own"), value(number)
    {
    }
    int value;
};

TEST(success_leaves_the_slot_alone)
{
    assert_int_equal(ss::guard([] {}), S_OK);
    assert_int_equal(ss::guard([] { return ss::hresult(S_FALSE); }), S_FALSE);
    assert_int_equal(ss::guard([] { return ss::hresult(E_ABORT); }), E_ABORT);
    assert_false(static_cast<bool>(peek()));
    assert_int_equal(ss::check(S_FALSE), S_FALSE);
}

TEST(standard_exceptions_have_their_hresults)
{
    std::string message;

    assert_int_equal(guarded(std::bad_alloc()), E_OUTOFMEMORY);
    assert_int_equal(guarded(std::out_of_range("x")), E_BOUNDS);
    assert_int_equal(guarded(std::invalid_argument("x")), E_INVALIDARG);
    assert_int_equal(guarded(std::domain_error("x")), E_INVALIDARG);
    assert_int_equal(guarded(std::length_error("x")), E_INVALIDARG);
    assert_int_equal(guarded(std::overflow_error("x")), static_cast<HRESULT>(0x80070216));
    assert_int_equal(guarded(std::bad_cast()), E_NOINTERFACE);
    assert_int_equal(guarded(std::bad_function_call()), E_POINTER);
    assert_int_equal(guarded(std::runtime_error("caf\xc3\xa9"), &message), E_FAIL);
    assert_string_equal(message.c_str(), "caf\xc3\xa9");
    assert_int_equal(guarded(std::system_error(ENOENT, std::generic_category())),
                     static_cast<HRESULT>(0x80070002));
    assert_int_equal(guarded(std::system_error(EXFULL, std::system_category())),
                     static_cast<HRESULT>(0xA0530000 + EXFULL));
    assert_int_equal(guarded(std::system_error(std::make_error_code(std::io_errc::stream))),
                     E_FAIL);
}

TEST(what_is_no_std_exception_is_described)
{
    std::string message;

    assert_int_equal(guarded(17, &message), E_FAIL);
    assert_string_equal(message.c_str(), "an exception of type int was thrown: 17");
    (void)guarded(-7L, &message);
    assert_string_equal(message.c_str(), "an exception of type long was thrown: -7");
    (void)guarded(7ULL, &message);
    assert_string_equal(message.c_str(), "an exception of type unsigned long long was thrown: 7");
    (void)guarded(true, &message);
    assert_string_equal(message.c_str(), "an exception of type bool was thrown: true");
    (void)guarded('x', &message);
    assert_string_equal(message.c_str(), "an exception of type char was thrown: 'x'");
    (void)guarded(0.5, &message);
    assert_string_equal(message.c_str(), "an exception of type double was thrown: 0.5");
    (void)guarded(2.5F, &message);
    assert_string_equal(message.c_str(), "an exception of type float was thrown: 2.5");
    (void)guarded(static_cast<const wchar_t *>(L"caf\u00e9 \u20ac \U0001f600"), &message);
    assert_string_equal(message.c_str(), "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
    (void)guarded(std::wstring(L"wide"), &message);
    assert_string_equal(message.c_str(), "wide");
    assert_int_equal(guarded(static_cast<const char *>("text"), &message), E_FAIL);
    assert_string_equal(message.c_str(), "text");
    assert_int_equal(guarded(std::string("string"), &message), E_FAIL);
    assert_string_equal(message.c_str(), "string");
}

TEST(an_error_keeps_what_c_said)
{
    (void)RoOriginateErrorW(E_BOUNDS, 0, reinterpret_cast<const WCHAR *>(u"no such shelf: \u00e9"));
    try {
        (void)ss::check(E_BOUNDS);
        fail();
    } catch (const ss::error &e) {
        assert_int_equal(e.hresult(), E_BOUNDS);
        assert_string_equal(e.what(), "no such shelf: \xc3\xa9");
        assert_true(e.stack().size() > 0);
        assert_true(e.text().find("no such shelf") != std::string::npos);
        assert_true(e.json().find("no such shelf") != std::string::npos);
    }
    assert_false(static_cast<bool>(peek()));
}

// Out again: the same error object, whose chain tells of the visit.
TEST(an_error_that_passes_through_is_the_same)
{
    (void)RoOriginateErrorW(E_BOUNDS, 0, nullptr);
    const auto before = peek();
    const HRESULT hr = ss::guard([] { (void)ss::check(E_BOUNDS); });
    const auto after = peek();
    ss::com_ptr<ILanguageExceptionErrorInfo2> head;

    assert_int_equal(hr, E_BOUNDS);
    assert_ptr_equal(before.get(), after.get());
    const auto chain = after.as<ILanguageExceptionErrorInfo2>(IID_ILanguageExceptionErrorInfo2);
    assert_int_equal(chain->GetPropagationContextHead(head.put()), S_OK);
    assert_true(static_cast<bool>(head));
    RoClearError();
}

TEST(a_stale_error_is_replaced)
{
    (void)RoOriginateErrorW(E_BOUNDS, 0, nullptr);
    try {
        (void)ss::check(E_ABORT);
        fail();
    } catch (const ss::error &e) {
        assert_int_equal(e.hresult(), E_ABORT);
    }
    assert_false(static_cast<bool>(peek()));
}

// Another exception is another error, also when it follows one that came back.
TEST(a_new_exception_is_a_new_error)
{
    const HRESULT hr = ss::guard([] { throw own(1); });
    const auto info = peek();

    try {
        (void)ss::check(hr);
    } catch (const own &) { // handled
    }
    (void)ss::guard([] { throw own(2); });
    assert_ptr_not_equal(peek().get(), info.get());
    RoClearError();
}

TEST(a_long_chain_of_causes_is_cut)
{
    std::exception_ptr chain = std::make_exception_ptr(own(0));

    for (int i = 0; i < 200; i++)
        try {
            std::rethrow_exception(chain);
        } catch (...) {
            try {
                std::throw_with_nested(own(i));
            } catch (...) {
                chain = std::current_exception();
            }
        }
    assert_int_equal(ss::guard([&] { std::rethrow_exception(chain); }), E_FAIL);
    RoClearError();
}

struct failing_cleanup {
    ~failing_cleanup()
    {
        const ss::saved_error saved;

        (void)ss::guard([] { throw std::out_of_range("clean-up"); });
    }
};

TEST(cleanup_does_not_replace_the_error)
{
    (void)RoOriginateErrorW(E_ABORT, 0, nullptr);
    const auto before = peek();
    {
        failing_cleanup cleanup;
    }
    assert_ptr_equal(peek().get(), before.get());
    RoClearError();
}

TEST(a_result_is_moved_and_left_alone_on_failure)
{
    std::unique_ptr<int> result;

    assert_int_equal(ss::guard([] { return std::make_unique<int>(7); }, result), S_OK);
    assert_int_equal(*result, 7);
    assert_int_equal(
        ss::guard([]() -> std::unique_ptr<int> { throw std::out_of_range("none"); }, result),
        E_BOUNDS);
    assert_int_equal(*result, 7);
    RoClearError();
}

TEST(hresults_are_error_codes)
{
    const std::error_code denied = ss::to_error_code(E_ACCESSDENIED);
    const std::error_code own = ss::to_error_code(E_BOUNDS);

    assert_true(denied == std::errc::permission_denied ||
                denied == std::errc::operation_not_permitted);
    assert_false(own == std::errc::permission_denied);
    assert_true(own.message().find("valid range") != std::string::npos);
    assert_int_equal(ss::to_hresult(own), E_BOUNDS);
    assert_int_equal(ss::to_hresult(std::make_error_code(std::errc::no_such_file_or_directory)),
                     static_cast<HRESULT>(0x80070002));
    assert_int_equal(ss::to_hresult(std::error_code()), S_OK);
    assert_int_equal(guarded(std::system_error(own)), E_BOUNDS);
    assert_int_equal(guarded(ss::error(std::make_error_code(std::errc::no_such_file_or_directory))),
                     static_cast<HRESULT>(0x80070002));
    assert_true(ss::error(static_cast<HRESULT>(0x80070002)).code() ==
                std::errc::no_such_file_or_directory);
    assert_false(static_cast<bool>(peek()));
}

TEST(an_error_without_a_message_has_the_systems)
{
    assert_true(std::string(ss::error(E_BOUNDS).what()).find("valid range") != std::string::npos);
    assert_int_equal(ss::error(S_FALSE).hresult(), E_UNEXPECTED);
    try {
        ss::throw_error(S_OK);
    } catch (const ss::error &e) {
        assert_int_equal(e.hresult(), E_UNEXPECTED);
    }
    assert_false(static_cast<bool>(peek()));
}

} // namespace
