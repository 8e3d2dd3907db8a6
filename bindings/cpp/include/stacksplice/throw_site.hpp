/*
 * Private to stacksplice.hpp: the stack where a C++ exception is thrown.
 *
 * When guard() catches an exception, the frames between the throw and the guard are gone.  But the
 * ABI of C++ exceptions (Itanium) unwinds in two phases: first it only searches the stack for a
 * handler, and asks each function's personality routine on the way, while nothing is unwound yet.
 * guard() therefore makes its call through a few lines of assembly whose personality routine is
 * ours: it captures the stack and lets the search continue.  On a platform without that assembly
 * the call is a plain one, and the stack is the gap of unwound_gap() and the frames from the guard
 * outward.
 */
#ifndef STACKSPLICE_THROW_SITE_HPP
#define STACKSPLICE_THROW_SITE_HPP

#include <stacksplice/error.hpp>

#include <cstring>
#include <cxxabi.h>
#include <exception>
#include <unwind.h>

#if defined(__ELF__) && (defined(__x86_64__) || defined(__aarch64__)) && !defined(__ILP32__)
#define STACKSPLICE_HAS_THROW_SITE 1
#else
#define STACKSPLICE_HAS_THROW_SITE 0
#endif

namespace stacksplice
{
inline namespace v1
{
namespace detail
{

// The stack of a throw.  A call that succeeds only initialises FRAMES; who catches deletes them.
struct throw_site {
    std::uintptr_t *frames = nullptr; // operator new[]
    std::uint32_t count;              // of FRAMES
};

// In the handler: deletes them.
struct caught_site {
    explicit caught_site(const throw_site &site) noexcept : frames(site.frames)
    {
    }
    ~caught_site()
    {
        delete[] frames;
    }
    caught_site(const caught_site &) = delete;
    caught_site &operator=(const caught_site &) = delete;

    std::uintptr_t *const frames;
};

// The gap for the frames between a throw and the place where the stack was captured.
inline std::uintptr_t unwound_gap() noexcept
{
    return stacksplice_gap("c++", STACKSPLICE_GAP_RETURNED, 0);
}

#if STACKSPLICE_HAS_THROW_SITE

inline constexpr std::uint32_t throw_frames = 8; // at most: the unwinder's, the library's

inline const void *function_at(std::uintptr_t address) noexcept
{
    return _Unwind_FindEnclosingFunction(reinterpret_cast<void *>(address - 1));
}

struct throw_name {
    bool found = false, again = false;
};

inline int look_at_name(const stacksplice_frame *frame, void *data) noexcept
{
    const char *const name = frame->function ? frame->function : "";
    auto &look = *static_cast<throw_name *>(data);

    look.again = std::strcmp(name, "__cxa_rethrow") == 0 ||
                 std::strncmp(name, "std::rethrow_exception", 22) == 0;
    look.found = look.again || std::strcmp(name, "__cxa_throw") == 0;
    return look.found;
}

// How many of the innermost frames belong to the C++ library's throw.  *AGAIN: it threw an
// exception again whose first throw is long unwound.
inline std::uint32_t frames_of_throw(const std::uintptr_t *frames, std::uint32_t count,
                                     bool *again) noexcept
{
    const void *const first = reinterpret_cast<void *>(&abi::__cxa_throw);
    const void *const rethrow = reinterpret_cast<void *>(&abi::__cxa_rethrow);
    const void *const rethrow_exception = reinterpret_cast<void *>(&std::rethrow_exception);

    *again = false;
    for (std::uint32_t i = 0; i < count && i < throw_frames; i++) {
        const void *const function = function_at(frames[i]);

        *again = function == rethrow || function == rethrow_exception;
        if (*again || function == first)
            return i + 1;
    }
    // The address sanitizer puts functions of its own before the library's: these by their names.
    for (std::uint32_t i = 0; i < count && i < throw_frames; i++) {
        throw_name name;

        (void)stacksplice_resolve(frames[i], look_at_name, &name);
        *again = name.again;
        if (name.found)
            return i + 1;
    }
    return 0;
}

// In a terminate handler the stack of the throw is still there, unless clean-up has run: how many of
// the innermost frames are inside of it.  0: that handler is not among them, or the throw is gone.
inline std::uint32_t frames_of_terminate(const std::uintptr_t *frames, std::uint32_t count,
                                         bool *again) noexcept
{
    for (std::uint32_t i = 0; i < count && i < throw_frames; i++) {
        const void *const function = function_at(frames[i]);

        if (function && function == reinterpret_cast<void *>(std::get_terminate())) {
            const std::uint32_t thrown = frames_of_throw(frames + i, count - i, again);

            return thrown ? i + thrown : 0;
        }
    }
    return 0;
}

// Called in the search phase, while the stack of the throw is whole above ABOVE.
inline void take_throw_site(throw_site *site, const void *above) noexcept
{
    const std::uint32_t most = stacksplice_max_frames() + 2 * throw_frames;
    std::uint32_t count = 0;
    bool again = false;

    delete[] site->frames; // of a search that came to nothing
    std::uintptr_t *const frames = new (std::nothrow) std::uintptr_t[most + 1];
    site->frames = frames;
    site->count = 0;
    if (!frames)
        return;
    if (FAILED(stacksplice_capture_ends(above, 0, most, frames + 1, &count)))
        return;
    const std::uint32_t skipped = frames_of_throw(frames + 1, count, &again);
    std::uint32_t first = skipped + 1;
    if (again)
        frames[--first] = unwound_gap();
    site->count = count + 1 - first;
    std::memmove(frames, frames + first, site->count * sizeof *frames);
}

// Where stacksplice_cpp_call keeps its SITE, from its stack pointer at the call.
#if defined(__x86_64__)
inline constexpr std::ptrdiff_t site_in_frame = 0;
#else
inline constexpr std::ptrdiff_t site_in_frame = 16;
#endif

// The site of the stacksplice_cpp_call that a search asks, or NULL.  It is the innermost one outside of
// ABOVE: the function around each of them has a catch (...), where a search ends.  The context that
// _Unwind_GetGR and its like take is never looked at: with -static-libgcc this binary has a copy of
// them which is not the unwinder that searches, and ends the process.
inline throw_site *asked_site(const void *above, const void *call) noexcept
{
    const void *const frame = stacksplice_thrown_frame(above, call);
    throw_site *site = nullptr;

    if (frame)
        std::memcpy(&site, static_cast<const char *>(frame) + site_in_frame, sizeof site);
    return site;
}

} // namespace detail
} // namespace v1
} // namespace stacksplice

extern "C" {

// Returns what CALL(DATA) returns; SITE gets the stack of what it throws.
[[gnu::visibility("hidden")]] HRESULT stacksplice_cpp_call(stacksplice::detail::throw_site *site,
                                                           HRESULT (*call)(void *data), void *data);

[[gnu::used, gnu::visibility("hidden")]] inline _Unwind_Reason_Code stacksplice_cpp_personality(
    int version, _Unwind_Action actions, _Unwind_Exception_Class, _Unwind_Exception *,
    _Unwind_Context *)
{
    namespace detail = stacksplice::detail;
    const void *const above = __builtin_frame_address(0);

    if (version == 1 && (actions & _UA_SEARCH_PHASE))
        if (detail::throw_site *const site =
                detail::asked_site(above, reinterpret_cast<const void *>(stacksplice_cpp_call)))
            detail::take_throw_site(site, above);
    return _URC_CONTINUE_UNWIND;
}
}

// One copy for each binary with any number of units; link-time optimisation makes one of them.
__asm__(".ifndef stacksplice_cpp_call\n"
        ".pushsection .data.rel.ro.DW.ref.stacksplice_cpp_personality,\"awG\",%progbits,"
        "DW.ref.stacksplice_cpp_personality,comdat\n"
        ".hidden DW.ref.stacksplice_cpp_personality\n"
        ".weak DW.ref.stacksplice_cpp_personality\n"
        ".p2align 3\n"
        ".type DW.ref.stacksplice_cpp_personality, %object\n"
        ".size DW.ref.stacksplice_cpp_personality, 8\n"
        "DW.ref.stacksplice_cpp_personality: .8byte stacksplice_cpp_personality\n"
        ".popsection\n"
        ".pushsection .text.stacksplice_cpp_call,\"axG\",%progbits,stacksplice_cpp_call,comdat\n"
        ".hidden stacksplice_cpp_call\n"
        ".weak stacksplice_cpp_call\n"
        ".type stacksplice_cpp_call, %function\n"
        ".p2align 4\n"
        "stacksplice_cpp_call:\n"
        ".cfi_startproc\n"
        ".cfi_personality 0x9b, DW.ref.stacksplice_cpp_personality\n"
#if defined(__x86_64__)
        "endbr64\n"
        "pushq %rdi\n" /* site_in_frame */
        ".cfi_def_cfa_offset 16\n"
        "movq %rdx, %rdi\n"
        "call *%rsi\n"
        "popq %rdi\n"
        ".cfi_def_cfa_offset 8\n"
        "ret\n"
#else
        "hint #34\n" /* bti c */
        "stp x29, x30, [sp, #-32]!\n"
        ".cfi_def_cfa_offset 32\n"
        ".cfi_offset 29, -32\n"
        ".cfi_offset 30, -24\n"
        "str x0, [sp, #16]\n" /* site_in_frame */
        "mov x29, sp\n"
        "mov x0, x2\n"
        "blr x1\n"
        "ldp x29, x30, [sp], #32\n"
        ".cfi_restore 29\n"
        ".cfi_restore 30\n"
        ".cfi_def_cfa_offset 0\n"
        "ret\n"
#endif
        ".cfi_endproc\n"
        ".size stacksplice_cpp_call, .-stacksplice_cpp_call\n"
        ".popsection\n"
        ".endif\n");

#else

} // namespace detail
} // namespace v1
} // namespace stacksplice

inline HRESULT stacksplice_cpp_call(stacksplice::detail::throw_site *, HRESULT (*call)(void *data),
                                    void *data)
{
    return call(data);
}

#endif
#endif
