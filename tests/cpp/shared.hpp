// What the tests of stacksplice.hpp share.
#ifndef SHARED_HPP
#define SHARED_HPP

#include <stacksplice/stacksplice.hpp>

#include <cstring>
#include <string>
#include <vector>

#include "frames.h"
#include "support.h"

namespace ss = stacksplice;

inline ss::com_ptr<IRestrictedErrorInfo> peek()
{
    ss::com_ptr<IRestrictedErrorInfo> info;

    (void)stacksplice_peek_error(info.put());
    return info;
}

inline ss::com_ptr<IRestrictedErrorInfo> take()
{
    ss::com_ptr<IRestrictedErrorInfo> info;

    (void)GetRestrictedErrorInfo(info.put());
    return info;
}

inline int add_name(const stacksplice_frame *frame, void *data)
{
    auto &text = *static_cast<std::string *>(data);

    if (frame->kind == STACKSPLICE_FRAME_GAP)
        text += std::string("[") + frame->reason + "]";
    else
        text += frame->function ? frame->function : "?";
    text += '\n';
    return 0;
}

// One line for each frame of a stack, innermost first; a gap in brackets.
inline std::string names(const std::vector<std::uintptr_t> &frames)
{
    std::string text;

    for (const std::uintptr_t frame : frames)
        (void)stacksplice_resolve(frame, add_name, &text);
    return text;
}

inline std::string names_of(const ss::com_ptr<IRestrictedErrorInfo> &info)
{
    return names(ss::error(E_FAIL, "", info).stack());
}

// Whether the lines that hold WORDS are in TEXT in this order.
inline bool in_order(const std::string &text, const std::vector<const char *> &words)
{
    std::size_t at = 0;

    for (const char *word : words) {
        at = text.find(word, at);
        if (at == std::string::npos) {
            print_error("no %s in\n%s", word, text.c_str());
            return false;
        }
        at += std::strlen(word);
    }
    return true;
}

// The languages that received it, the oldest first.
inline std::string receivers_of(const ss::com_ptr<IRestrictedErrorInfo> &info)
{
    ss::com_ptr<ILanguageExceptionErrorInfo2> node, older;
    std::string receivers;

    (void)info.as<ILanguageExceptionErrorInfo2>(IID_ILanguageExceptionErrorInfo2)
        ->GetPropagationContextHead(node.put());
    for (; node; node = older) {
        const char *language = "nobody";

        (void)stacksplice_node_language(node.get(), &language);
        receivers = receivers.empty() ? language : language + (" " + receivers);
        (void)node->GetPreviousLanguageExceptionErrorInfo(older.put());
    }
    return receivers;
}

#endif
