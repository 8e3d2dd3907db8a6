// The stack and the report of an exception that was caught, and the handler for one that nobody caught.
#ifndef STACKSPLICE_TRACE_HPP
#define STACKSPLICE_TRACE_HPP

#include <stacksplice/origination.hpp>
#include <stacksplice/read.h>

#include <type_traits>

namespace stacksplice
{
inline namespace v1
{

// One frame of a trace.  Texts are empty where something is not known.
struct frame {
    std::string language; // "native", "python", "lua", ...
    std::string function;
    std::string file;
    std::uint32_t line = 0;
    std::string gap;  // not empty: frames are missing here, for this reason
    std::string text; // its line in a report of all frames

    template <typename Traits>
    friend std::basic_ostream<char, Traits> &operator<<(std::basic_ostream<char, Traits> &out,
                                                        const frame &f)
    {
        return out << f.text;
    }
};

namespace detail
{

inline int add_frame(const stacksplice_frame *f, void *data) noexcept
{
    const auto text = [](const char *p) { return std::string(p ? p : ""); };
    auto &frames = *static_cast<std::vector<frame> *>(data);

    try {
        frames.push_back(
            {text(f->language), text(f->function), text(f->file), f->line, text(f->reason), {}});
        (void)stacksplice_format_frame(f, append, &frames.back().text);
        return 0;
    } catch (...) {
        return 1;
    }
}

} // namespace detail

// The trace of an exception: the frames where it was thrown, innermost first, and its report.  An
// exception has the stack of its throw if it is a stacksplice::error, left a guard() or a traced(),
// or came out of another language; any other one has a gap, then the stack outward from where it was
// caught.  One thread may use a trace at a time.
class trace
{
  public:
    // Of the exception that is being handled; empty outside of a handler.
    [[nodiscard, gnu::noinline]] static trace current()
    {
        const std::exception_ptr exception = std::current_exception();

        return exception
                   ? trace(detail::info_of(exception, {nullptr, __builtin_frame_address(0), 0}))
                   : trace(com_ptr<IRestrictedErrorInfo>());
    }
    [[gnu::noinline]] explicit trace(const std::exception_ptr &exception)
        : info_(exception ? detail::info_of(exception, {nullptr, __builtin_frame_address(0), 0})
                          : com_ptr<IRestrictedErrorInfo>())
    {
    }
    explicit trace(com_ptr<IRestrictedErrorInfo> info) noexcept : info_(std::move(info))
    {
    }

    // The frames; their names, files and lines are looked up by the first call.
    const std::vector<frame> &frames() const
    {
        if (frames_.empty() && info_)
            for (const std::uintptr_t element : detail::elements_of(info_))
                (void)stacksplice_resolve(element, detail::add_frame, &frames_);
        return frames_;
    }
    auto begin() const
    {
        return frames().begin();
    }
    auto end() const
    {
        return frames().end();
    }
    bool empty() const noexcept
    {
        return !info_;
    }

    // The report: type, message, causes and the stack, as stacksplice_format writes it.
    std::string text() const
    {
        return detail::format(info_, STACKSPLICE_FORMAT_TEXT);
    }
    std::string json() const
    {
        return detail::format(info_, STACKSPLICE_FORMAT_JSON);
    }
    const com_ptr<IRestrictedErrorInfo> &info() const noexcept
    {
        return info_;
    }

    template <typename Traits>
    friend std::basic_ostream<char, Traits> &operator<<(std::basic_ostream<char, Traits> &out,
                                                        const trace &t)
    {
        return out << t.text();
    }

  private:
    com_ptr<IRestrictedErrorInfo> info_;
    mutable std::vector<frame> frames_;
};

namespace detail
{

// Of std::format and fmt: see format.hpp and fmt.hpp.  There are no options.
struct text_formatter {
    template <typename Context> constexpr auto parse(Context &context)
    {
        return context.begin();
    }
    template <typename Context> auto format(const frame &f, Context &context) const
    {
        return write(f.text, context);
    }
    template <typename Context> auto format(const trace &t, Context &context) const
    {
        return write(t.text(), context);
    }

  private:
    template <typename Context> static auto write(const std::string &text, Context &context)
    {
        auto out = context.out();

        for (const char c : text)
            *out++ = c;
        return out;
    }
};

// Where a call leaves its result.
template <typename Result> class place
{
  public:
    place() noexcept
    {
    }
    ~place()
    {
    }
    place(const place &) = delete;
    place &operator=(const place &) = delete;

    template <typename Function> void make(Function &function)
    {
        const volatile void *const at = __builtin_addressof(value_);

        new (const_cast<void *>(at)) Result(function());
    }
    Result take()
    {
        struct end {
            ~end()
            {
                value.~Result();
            }
            Result &value;
        } const last{value_};

        return std::move(value_);
    }

  private:
    union {
        Result value_;
    };
};

} // namespace detail

// Call FUNCTION and return what it returns.  An exception that leaves it is the same object as
// without traced(), and has the stack of its throw: see trace.
template <typename Function> std::invoke_result_t<Function &> traced(Function &&function)
{
    using result = std::invoke_result_t<Function &>;
    detail::throw_site site;
    const auto call = [](auto &work, detail::throw_site &s) {
        using type = std::remove_reference_t<decltype(work)>;
        try {
            (void)stacksplice_cpp_call(
                &s,
                [](void *data) -> HRESULT {
                    (*static_cast<type *>(data))();
                    return S_OK;
                },
                __builtin_addressof(work));
        } catch (...) {
            const detail::caught_site owner(s);

            if (std::current_exception())
                detail::attach({&s, __builtin_frame_address(0), 0});
            throw;
        }
    };

    if constexpr (std::is_void_v<result>) {
        auto work = [&] { function(); };
        call(work, site);
    } else if constexpr (std::is_reference_v<result>) {
        std::remove_reference_t<result> *value = nullptr;
        auto work = [&] { value = __builtin_addressof(function()); };
        call(work, site);
        return static_cast<result>(*value);
    } else {
        detail::place<result> place;
        auto work = [&] { place.make(function); };
        call(work, site);
        return place.take();
    }
}

// ---- What nobody catches ----------------------------------------------------------------------

namespace detail
{

// See stacksplice_uncaught.
inline int report_uncaught(const void *above) noexcept
{
    if (!std::current_exception())
        return 0;
    (void)originate_from({nullptr, above, 0, true});
    return 1;
}

// Each binary that includes this header has one.
struct binary {
    binary() noexcept
    {
        stacksplice_uncaught_add(&uncaught);
    }
    ~binary()
    {
        stacksplice_uncaught_remove(&uncaught);
    }
    binary(const binary &) = delete;
    binary &operator=(const binary &) = delete;

    stacksplice_uncaught uncaught{report_uncaught, std::get_terminate, std::set_terminate, nullptr,
                                  0};
};

[[gnu::visibility("hidden")]] inline binary this_binary;

} // namespace detail

// From now on an exception that nobody catches, or that leaves a noexcept function, becomes the
// thread's error, with the stack of its throw.  A crash report shows it; without a crash handler its
// report goes to standard error.  Then the former handler goes on, which aborts.  The crash handler
// of stacksplice/crash.h does this by itself.
inline void install_terminate_handler() noexcept
{
    stacksplice_report_uncaught();
}

} // namespace v1
} // namespace stacksplice
#endif
