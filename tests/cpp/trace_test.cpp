// stacksplice.hpp: the trace of a caught exception, and what a terminate handler says.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <stacksplice/crash.h>

#include "shared.hpp"

namespace
{

[[gnu::noinline]] void leaf(int kind)
{
    if (kind == 1)
        throw std::out_of_range("no such shelf");
    if (kind == 2)
        throw ss::error(E_BOUNDS, "no such order");
}

[[gnu::noinline]] int branch(int kind)
{
    volatile int seven = 7; // after the call, which is no jump then

    leaf(kind);
    return seven;
}

// Without libdw nobody knows the names of functions that are not exported.
#ifdef HAVE_LIBDW
constexpr bool knows_names = true;
#else
constexpr bool knows_names = false;
#endif

bool has_function(const ss::trace &trace, const char *name)
{
    for (const ss::frame &frame : trace)
        if (frame.function.find(name) != std::string::npos)
            return true;
    return !knows_names && !trace.frames().empty();
}

bool has_gap(const ss::trace &trace)
{
    for (const ss::frame &frame : trace)
        if (!frame.gap.empty())
            return true;
    return false;
}

TEST(an_exception_that_left_traced_has_the_stack_of_its_throw)
{
    for (int kind = 1; kind <= 2; kind++) {
        const std::exception *thrown = nullptr;

        try {
            try {
                (void)ss::traced([&] { return branch(kind); });
            } catch (const std::exception &e) {
                thrown = &e;
                throw;
            }
        } catch (const std::exception &e) {
            const ss::trace trace = ss::trace::current();
            std::ostringstream text;

            assert_ptr_equal(&e, thrown);
            text << trace;
            assert_true(has_function(trace, "leaf"));
            assert_true(has_function(trace, "branch"));
            assert_false(has_gap(trace));
            assert_non_null(std::strstr(text.str().c_str(), e.what()));
            assert_non_null(std::strstr(trace.json().c_str(), e.what()));
        }
        assert_false(static_cast<bool>(peek()));
    }
}

TEST(traced_returns_what_its_function_returns)
{
    int number = 5;
    int &same = ss::traced([&]() -> int & { return number; });

    assert_int_equal(ss::traced([] { return branch(0); }), 7);
    assert_ptr_equal(&same, &number);
    ss::traced([] { leaf(0); });
    assert_int_equal(*ss::traced([] { return std::make_unique<int>(3); }), 3);
}

TEST(the_first_throw_stays_when_it_is_thrown_again)
{
    try {
        ss::traced([] {
            try {
                ss::traced([] { leaf(1); });
            } catch (...) {
                throw;
            }
        });
    } catch (...) {
        assert_true(has_function(ss::trace::current(), "leaf"));
    }
}

TEST(an_exception_that_was_kept_has_its_trace)
{
    std::exception_ptr kept;

    std::thread([&] {
        try {
            ss::traced([] { leaf(1); });
        } catch (...) {
            kept = std::current_exception();
        }
    }).join();
    assert_true(has_function(ss::trace(kept), "leaf"));
    assert_true(ss::trace(std::exception_ptr()).empty());
    assert_true(ss::trace::current().empty());
    assert_int_equal(ss::originate(kept), E_BOUNDS);
    assert_true(has_function(ss::trace(take()), "leaf"));
    assert_int_equal(ss::originate(nullptr), S_OK);
}

TEST(an_exception_that_nobody_traced_has_a_gap)
{
    try {
        leaf(1);
    } catch (...) {
        assert_true(has_gap(ss::trace::current()));
    }
}

struct without_words : std::exception {
    const char *what() const noexcept override
    {
        return nullptr;
    }
};

TEST(an_exception_without_words_is_described)
{
    assert_int_equal(ss::guard([] { throw without_words(); }), E_FAIL);
    RoClearError();
}

// ---- What nobody catches ----------------------------------------------------------------------

void through_noexcept() noexcept
{
    leaf(1);
}

void own_handler()
{
    (void)ss::originate_current();
    const std::string text = ss::trace(take()).text();
    (void)!write(2, text.data(), text.size());
    std::abort();
}

// What a child says on standard error that ends by RUN; it has to die by SIGABRT.
std::string last_words(void (*run)())
{
    int ends[2], status = 0;
    std::string text;
    char part[4096];

    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        (void)dup2(ends[1], 2);
        (void)std::signal(SIGABRT, SIG_DFL);
        run();
        _exit(0);
    }
    (void)close(ends[1]);
    for (ssize_t got; (got = read(ends[0], part, sizeof part)) > 0;)
        text.append(part, static_cast<std::size_t>(got));
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    return text;
}

// Clean-up that ran before the terminate handler has unwound the throw: noexcept functions of clang++ and
// those built for the thread sanitizer have some.  What leaves a thread is never unwound.
#if defined(__clang__) || defined(__SANITIZE_THREAD__)
constexpr bool is_gone_at_noexcept = true;
#else
constexpr bool is_gone_at_noexcept = false;
#endif

void check_last_words(bool is_gone, void (*run)())
{
    const std::string text = last_words(run);
    const char *const frame = knows_names && !is_gone ? "leaf" : "Stack of";

    if (!in_order(text, {"out_of_range", "no such shelf", frame}) ||
        (text.find("already returned") != std::string::npos) != is_gone)
        fail_msg("%s", text.c_str());
}

TEST(the_terminate_handler_tells_what_nobody_caught)
{
    check_last_words(is_gone_at_noexcept, [] {
        ss::install_terminate_handler();
        ss::install_terminate_handler();
        through_noexcept();
    });
    check_last_words(false, [] {
        ss::install_terminate_handler();
        std::thread([] { leaf(1); }).join();
    });
    check_last_words(is_gone_at_noexcept, [] {
        (void)std::set_terminate(own_handler);
        through_noexcept();
    });
}

TEST(the_terminate_handler_goes_on_with_the_former_one)
{
    const std::string text = last_words([] {
        (void)std::set_terminate([] {
            (void)!write(2, "the former one\n", 15);
            std::abort();
        });
        ss::install_terminate_handler();
        through_noexcept();
    });

    assert_true(in_order(text, {"no such shelf", "the former one"}));
}

// ---- Beside a crash handler -------------------------------------------------------------------

void fail_with_cause()
{
    try {
        leaf(1);
    } catch (...) {
        std::throw_with_nested(std::runtime_error("no delivery"));
    }
}

void crash_in(const char *directory)
{
    stacksplice_crash_options options{};

    options.size = sizeof options;
    options.directory = directory;
    (void)stacksplice_install_crash_handler(&options);
}

std::string content_of_only_file_in(const std::filesystem::path &directory)
{
    std::ostringstream content;

    for (const auto &entry : std::filesystem::directory_iterator(directory))
        content << std::ifstream(entry.path()).rdbuf();
    return content.str();
}

TEST(a_crash_report_has_the_exception_that_nobody_caught)
{
    char directory[] = "/tmp/stacksplice-uncaught-XXXXXX";

    assert_non_null(mkdtemp(directory));
    static const char *chosen;
    chosen = directory;
    const std::string text = last_words([] {
        crash_in(chosen);
        std::thread(fail_with_cause).join();
    });
    const std::string file = content_of_only_file_in(directory);
    std::filesystem::remove_all(directory);

    assert_true(in_order(text, {"Current error", "runtime_error", "no delivery", "Stack of thread",
                                "(cpp_trace_test", "out_of_range", "no such shelf"}));
    assert_null(std::strstr(text.c_str(), "that nobody caught"));
    assert_true(in_order(file, {"current_error", "no delivery"}));
    assert_non_null(std::strstr(file.c_str(), "no such shelf"));
}

TEST(handlers_before_and_after_the_crash_handler_run)
{
    static std::terminate_handler former;
    const auto say = [](const char *words) { (void)!write(2, words, std::strlen(words)); };
    static decltype(say) *speak;
    speak = &say;
    const std::string text = last_words([] {
        (void)std::set_terminate([] {
            (*speak)("the first one\n");
            std::abort();
        });
        crash_in("");
        former = std::set_terminate([] {
            (*speak)("the last one\n");
            former();
        });
        crash_in(""); // in front again, and the last one calls it
        leaf(1);
    });

    assert_true(
        in_order(text, {"the last one", "the first one", "Current error", "no such shelf"}));
    assert_null(std::strstr(text.c_str() + text.find("the first one") + 1, "the first one"));
}

TEST(without_its_crash_handler_the_core_passes_the_exception_on)
{
    const std::string text = last_words([] {
        (void)std::set_terminate([] {
            (void)!write(2, "the first one\n", 14);
            std::abort();
        });
        crash_in("");
        (void)stacksplice_remove_crash_handler();
        leaf(1);
    });

    // An emulator may tell of the end in a line of its own.
    assert_true(text == "the first one\n" ||
                text == "the first one\nqemu: uncaught target signal 6 (Aborted) - core dumped\n");
}

} // namespace
