// binaries ONE TWO: C++ in three binaries of one process, the program and two plugins that do not see each
// other's symbols.  check_binaries.py builds it with each compiler and library that there is.
#include <stacksplice/crash.h>
#include <stacksplice/stacksplice.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <future>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace ss = stacksplice;

namespace
{

int failed;

#define EXPECT(condition)                                       \
    do {                                                        \
        if (!(condition)) {                                     \
            failed++;                                           \
            std::printf("line %d: %s\n", __LINE__, #condition); \
        }                                                       \
    } while (0)

struct plugin {
    void *handle;
    HRESULT (*throws)(int);
    HRESULT (*passes)(HRESULT (*)(int), int);
    void (*throws_plainly)(int);
    void (*guards)(void (*)(int), int, HRESULT *);
    void (*code)(std::error_code *);
};

template <typename Function> void find(const plugin &p, const char *name, Function *&function)
{
    function = reinterpret_cast<Function *>(dlsym(p.handle, name));
    if (!function)
        std::abort();
}

plugin open_plugin(const char *path)
{
    plugin p{};

    p.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!p.handle) {
        std::puts(dlerror());
        std::abort();
    }
    find(p, "plugin_throws", p.throws);
    find(p, "plugin_passes", p.passes);
    find(p, "plugin_throws_plainly", p.throws_plainly);
    find(p, "plugin_guards", p.guards);
    find(p, "plugin_code", p.code);
    return p;
}

ss::com_ptr<IRestrictedErrorInfo> take()
{
    ss::com_ptr<IRestrictedErrorInfo> info;

    (void)GetRestrictedErrorInfo(info.put());
    return info;
}

std::string report(const ss::com_ptr<IRestrictedErrorInfo> &info)
{
    return info ? ss::error(E_FAIL, "", info).text() : std::string();
}

bool has(const std::string &text, const char *words)
{
    return text.find(words) != std::string::npos;
}

// What ONE threw goes through TWO and the program, and back.
void test_one_error(const plugin &one, const plugin &two)
{
    for (int kind = 0; kind <= 3; kind++) {
        const HRESULT wanted = kind < 3 ? E_BOUNDS : E_FAIL;
        HRESULT hr = one.throws(kind);
        const auto first = take();
        const void *object = nullptr;
        std::string text;

        EXPECT(hr == wanted);
        EXPECT(SUCCEEDED(SetRestrictedErrorInfo(first.get())));
        for (int round = 0; round < 3; round++) {
            hr = ss::guard([&] {
                try {
                    ss::check(hr);
                } catch (const std::exception &e) {
                    EXPECT(!object || object == &e);
                    object = &e;
                    throw;
                }
            });
            EXPECT(hr == wanted);
            static HRESULT passed;
            passed = hr;
            hr = two.passes([](int) { return passed; }, kind);
            EXPECT(hr == wanted);
        }
        const auto last = take();
        EXPECT(last == first);
        text = report(last);
        EXPECT(has(text, "leaf"));
        EXPECT(!has(text, "returned"));
    }
}

void test_plain_exceptions(const plugin &one, const plugin &two)
{
    for (int kind = 0; kind <= 2; kind++) {
        HRESULT hr = S_OK;

        two.guards(one.throws_plainly, kind, &hr);
        EXPECT(hr == E_BOUNDS);
        const std::string text = report(take());
        EXPECT(has(text, "leaf"));
        EXPECT(has(text, kind == 0   ? "no such shelf"
                         : kind == 1 ? "no such order"
                                     : "of the plugin"));
    }
}

void test_codes(const plugin &one, const plugin &two)
{
    const HRESULT hr = static_cast<HRESULT>(0x80040201);
    std::error_code a, b;

    one.code(&a);
    two.code(&b);
    EXPECT(ss::to_hresult(a) == hr);
    EXPECT(ss::to_hresult(b) == hr);
    EXPECT(a == std::error_condition(hr, ss::hresult_category()));
    EXPECT(std::error_condition(hr, b.category()) == std::error_condition(hr, b.category()));
}

void test_forty_futures(const plugin &one)
{
    std::vector<std::future<void>> tasks;
    int whole = 0;

    for (int i = 0; i < 40; i++)
        tasks.push_back(std::async(std::launch::async, [&] { ss::check(one.throws(0)); }));
    for (auto &task : tasks)
        task.wait();
    for (auto &task : tasks) {
        (void)ss::guard([&] { task.get(); });
        const std::string text = report(take());
        whole += has(text, "leaf") && !has(text, "returned");
    }
    EXPECT(whole == 40);
}

// Exceptions that were handled, that are in flight and that are kept, when their binary goes.
void test_unload(const char *path)
{
    plugin p = open_plugin(path);
    ss::com_ptr<IRestrictedErrorInfo> kept;

    for (int kind = 0; kind <= 3; kind++)
        try {
            ss::check(p.throws(kind));
        } catch (const std::exception &) {
        }
    (void)p.throws(3);
    kept = take();
    const HRESULT hr = p.throws(3);
    EXPECT(dlclose(p.handle) == 0);
    EXPECT(!dlopen(path, RTLD_LAZY | RTLD_NOLOAD)); // or a new build of it would never be loaded
    (void)ss::guard([] { throw std::runtime_error("after"); });
    EXPECT(has(report(take()), "after"));
    EXPECT(has(report(kept), "bulky"));
    EXPECT(SUCCEEDED(SetRestrictedErrorInfo(kept.get())));
    try {
        ss::check(hr);
        EXPECT(!"check throws");
    } catch (const std::exception &e) {
        EXPECT(std::string(e.what()) == "bulky");
    }
    kept = nullptr;
    RoClearError();
}

// What a child says on standard error that ends by an exception.
std::string last_words(HRESULT (*through)(int), void (*plainly)(int))
{
    int ends[2], status = 0;
    std::string text;
    char part[4096];

    EXPECT(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
        (void)dup2(ends[1], 2);
        if (through)
            ss::check(through(1));
        plainly(0);
        _exit(0);
    }
    (void)close(ends[1]);
    for (ssize_t got; (got = read(ends[0], part, sizeof part)) > 0;)
        text.append(part, static_cast<std::size_t>(got));
    (void)close(ends[0]);
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    return text;
}

// The crash handler knows what nobody catches, also of binaries that come later, and after one that went.
void test_uncaught(const char *path, const plugin &other)
{
    stacksplice_crash_options options{};

    options.size = sizeof options;
    options.directory = "";
    EXPECT(stacksplice_install_crash_handler(&options) == S_OK);
    plugin gone = open_plugin(path);
    EXPECT(has(last_words(gone.throws, nullptr), "no such order"));
    dlclose(gone.handle);
    const std::string text = last_words(nullptr, other.throws_plainly);
    EXPECT(has(text, "Current error"));
    EXPECT(has(text, "std::out_of_range: no such shelf"));
    EXPECT(!has(text, "returned"));
    EXPECT(stacksplice_remove_crash_handler() == S_OK);
}

} // namespace

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    const plugin one = open_plugin(arguments[1]), two = open_plugin(arguments[2]);

    test_one_error(one, two);
    test_plain_exceptions(one, two);
    test_codes(one, two);
    test_forty_futures(one);
    dlclose(one.handle);
    test_uncaught(arguments[1], two);
    dlclose(two.handle);
    test_unload(arguments[1]);
    std::printf("%d failed\n", failed);
    return failed != 0;
}
