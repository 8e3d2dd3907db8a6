// stacksplice.hpp: the stack where an exception was thrown, and what passes a guard.
#include "shared.hpp"
#include "frames.h"

#include <pthread.h>

namespace
{

// Names are known where debug information can be read, and frames where the unwinder works.
bool knows_names()
{
#if defined(HAVE_LIBDW)
    return has_native_frames() && STACKSPLICE_HAS_THROW_SITE;
#else
    return false;
#endif
}

[[gnu::noinline]] void innermost(int kind)
{
    if (kind == 0)
        throw std::out_of_range("shelf 17");
    if (kind == 1)
        throw 17;
    throw ss::error(E_ABORT, "stopped");
}

[[gnu::noinline]] void between(int kind)
{
    innermost(kind);
    AFTER();
}

struct counts {
    ~counts()
    {
        ++destroyed;
    }
    static int destroyed;
};
int counts::destroyed;

[[gnu::noinline]] void with_destructor(int kind)
{
    counts counted;

    between(kind);
    AFTER();
}

// Frames that were unwound when the guard catches are in the stack, innermost first.
TEST(a_thrown_exception_has_the_stack_of_its_throw)
{
    for (int kind = 0; kind < 3; kind++) {
        counts::destroyed = 0;
        (void)ss::guard([&] { with_destructor(kind); });
        assert_int_equal(counts::destroyed, 1);
        const std::string text = names_of(take());
        if (!knows_names())
            continue;
        assert_true(in_order(text, {"innermost", "between", "with_destructor", "guard"}));
#if !defined(__SANITIZE_ADDRESS__) // whose own __cxa_throw stays in the stack
        assert_true(text.find("innermost") < text.find('\n'));
#endif
        assert_true(text.find("[" STACKSPLICE_GAP_RETURNED "]") == std::string::npos);
    }
}

[[gnu::noinline]] void throws_again()
{
    try {
        between(0);
    } catch (...) {
        throw;
    }
}

[[gnu::noinline]] void throws_kept_again()
{
    std::exception_ptr kept;

    try {
        between(0);
    } catch (...) {
        kept = std::current_exception();
    }
    std::rethrow_exception(kept);
}

// What lay between the first throw and its handler is gone, and the stack says so.
TEST(an_exception_thrown_again_has_a_gap)
{
    for (auto *again : {throws_again, throws_kept_again}) {
        (void)ss::guard(again);
        const std::string text = names_of(take());
        if (!knows_names())
            continue;
        assert_true(text.find("[" STACKSPLICE_GAP_RETURNED "]") == 0);
        assert_true(in_order(text, {"[" STACKSPLICE_GAP_RETURNED "]", "throws_", "guard"}));
        assert_true(text.find("between") == std::string::npos);
    }
}

[[gnu::noinline]] void error_again()
{
    try {
        between(2);
    } catch (...) {
        throw;
    }
}

// A stacksplice::error remembers where it was made, however often it is thrown.
TEST(an_error_keeps_the_stack_of_its_construction)
{
    (void)ss::guard(error_again);
    const std::string text = names_of(take());
    if (knows_names())
        assert_true(in_order(text, {"innermost", "between", "error_again"}));
}

// An exception that is caught inside is no business of the guard.
TEST(an_exception_that_is_caught_inside_leaves_nothing)
{
    assert_int_equal(ss::guard([] {
                         try {
                             between(0);
                         } catch (const std::exception &) {
                         }
                     }),
                     S_OK);
    assert_false(static_cast<bool>(peek()));
}

// The inner guard's error is its own; the outer one has the stack of its own throw.
TEST(guards_nest)
{
    HRESULT inner = S_OK;
    ss::com_ptr<IRestrictedErrorInfo> first;
    const HRESULT outer = ss::guard([&] {
        inner = ss::guard([] { between(0); });
        first = take();
        between(2);
    });

    assert_int_equal(inner, E_BOUNDS);
    assert_int_equal(outer, E_ABORT);
    const auto second = take();
    assert_true(first != second);
    if (knows_names()) {
        const std::string text = names_of(first);
        assert_true(text.find("guard") != text.rfind("guard"));
    }
}

struct throwing_inside {
    ~throwing_inside()
    {
        (void)ss::guard([] { between(1); });
        RoClearError();
    }
};

// Destructors that run while the stack is unwound may use guards, too.
TEST(a_guard_in_a_destructor_changes_nothing)
{
    const HRESULT hr = ss::guard([] {
        throwing_inside cleanup;
        between(0);
    });
    const auto info = take();

    assert_int_equal(hr, E_BOUNDS);
    if (knows_names())
        assert_true(in_order(names_of(info), {"innermost", "between", "guard"}));
}

struct ends_thread {
    bool *destroyed;
    ~ends_thread()
    {
        *destroyed = true;
    }
};

void *end_in_guard(void *data)
{
    (void)ss::guard([&] {
        ends_thread ended{static_cast<bool *>(data)};
        pthread_exit(data);
    });
    return nullptr;
}

// The end of a thread is no exception: swallowing it would end the process.
TEST(the_end_of_a_thread_passes)
{
    bool destroyed = false;
    void *result = nullptr;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, nullptr, end_in_guard, &destroyed), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &destroyed);
#if defined(__GLIBC__)
    assert_true(destroyed);
#endif
}

bool foreign_passed;

void drop_foreign(_Unwind_Reason_Code, _Unwind_Exception *)
{
    foreign_passed = true;
}

// Thrown by another language than C++, as LuaJIT does.
[[gnu::noinline]] void throw_foreign()
{
    static _Unwind_Exception foreign;

    std::memset(&foreign, 0, sizeof foreign);
    std::memcpy(&foreign.exception_class, "TESTTEST", sizeof foreign.exception_class);
    foreign.exception_cleanup = drop_foreign;
    (void)_Unwind_RaiseException(&foreign);
    AFTER();
}

// It is nobody's to swallow; a handler that does so all the same gets an error without details.
TEST(what_is_not_of_cpp_passes)
{
    bool passed = false;
    HRESULT hr = S_OK;

    foreign_passed = false;
    try {
        (void)ss::guard(throw_foreign);
    } catch (...) {
        passed = true;
        hr = ss::originate_current();
    }
    assert_true(passed);
    assert_true(foreign_passed);
    assert_int_equal(hr, E_FAIL);
    HRESULT stored = S_OK;
    assert_string_equal(ss::detail::details_of(take(), &stored).c_str(),
                        "a foreign exception was thrown");
    assert_int_equal(ss::originate_current(), E_FAIL); // no exception at all
    RoClearError();
}

} // namespace
