/* Values with a telling name: password=..., "api_key": "...", Authorization: ... */
#include "redact/scan.h"

#include <string.h>

enum { NAME_SEEN = 64 }; /* of a longer name only the end counts */

/* A name ends in one of these; WHOLE: and it is a word of its own there, as in db_pass. */
static const struct known_name {
    const char *ends;
    bool whole;
    ss_secret_name is;
} known_names[] = {
    {"password", false, {"password", false, false}},
    {"passwords", false, {"password", false, false}},
    {"passwd", false, {"password", false, false}},
    {"passphrase", false, {"password", false, false}},
    {"passcode", false, {"password", false, false}},
    {"pwd", true, {"password", false, false}},
    {"pass", true, {"password", false, false}},
    {"secret", false, {"secret", false, false}},
    {"secrets", false, {"secret", false, false}},
    {"token", false, {"token", false, true}},
    {"jwt", true, {"token", false, true}},
    {"bearer", true, {"token", false, true}},
    {"apikey", false, {"key", false, false}},
    {"accesskey", false, {"key", false, false}},
    {"secretkey", false, {"key", false, false}},
    {"privatekey", false, {"key", false, false}},
    {"authkey", false, {"key", false, false}},
    {"encryptionkey", false, {"key", false, false}},
    {"signingkey", false, {"key", false, false}},
    {"masterkey", false, {"key", false, false}},
    {"accountkey", false, {"key", false, false}},
    {"sharedkey", false, {"key", false, false}},
    {"amzsignature", false, {"key", false, false}},
    {"credential", false, {"credentials", false, false}},
    {"credentials", false, {"credentials", false, false}},
    {"authorization", false, {"credentials", true, false}},
    {"cookie", true, {"cookie", true, false}},
    {"sessionid", false, {"session", false, false}},
};
static const ss_secret_name by_host = {"secret", false, false};

/* Whether the text from BEGIN to END ends in NAME, but for case, '_' and '-'. */
static bool ends_in(const ss_text *text, size_t begin, size_t end, const char *name, bool whole)
{
    size_t left = strlen(name);
    uint32_t c = 0, after;

    while (left && end > begin) {
        c = ss_text_at(text, --end);
        if (c == '_' || c == '-')
            continue;
        if (ss_lower(c) != (unsigned char)name[left - 1])
            return false;
        left--;
    }
    if (left)
        return false;
    after = end > begin ? ss_text_at(text, end - 1) : 0;
    return !whole || !ss_is_letter(after) || (c != ss_lower(c) && after == ss_lower(after));
}

const ss_secret_name *ss_secret_name_of(const ss_rules *rules, const ss_text *text, size_t begin,
                                        size_t end)
{
    if (end - begin > NAME_SEEN)
        begin = end - NAME_SEEN;
    for (size_t i = 0; i < SS_COUNT_OF(known_names); i++) {
        if (ends_in(text, begin, end, known_names[i].ends, known_names[i].whole))
            return &known_names[i].is;
    }
    for (uint32_t i = 0; i < rules->name_count; i++) {
        if (ends_in(text, begin, end, rules->names[i], true))
            return &by_host;
    }
    return NULL;
}

bool ss_scan_named(const ss_scan *s, size_t at, ss_secret *secret)
{
    const ss_secret_name *name;
    size_t end = at;

    while (ss_is_of_name(ss_scan_at(s, end)))
        end++;
    name = ss_secret_name_of(s->rules, &s->text, at, end);
    return name && ss_scan_value(s, name, at, end, secret);
}
