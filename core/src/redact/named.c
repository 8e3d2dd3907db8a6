/* Values with a telling name: password=..., "api_key": "...", Authorization: ... */
#include "redact/scan.h"

#include <string.h>

enum { NAME_SEEN = 64 }; /* of a longer name only the end counts */

/* A name ends in one of these; WHOLE: and it is a word of its own there, as in db_pass. */
#define NAME(text) text, sizeof(text) - 1
static const struct known_name {
    const char *ends;
    size_t length;
    bool whole;
    ss_secret_name is;
} known_names[] = {
    {NAME("password"), false, {"password", false, false, false}},
    {NAME("passwords"), false, {"password", false, false, false}},
    {NAME("passwd"), false, {"password", false, false, false}},
    {NAME("passphrase"), false, {"password", false, false, false}},
    {NAME("passcode"), false, {"password", false, false, false}},
    {NAME("pwd"), true, {"password", false, false, false}},
    {NAME("pass"), true, {"password", false, false, false}},
    {NAME("secret"), false, {"secret", false, false, false}},
    {NAME("secrets"), false, {"secret", false, false, false}},
    {NAME("token"), false, {"token", false, true, false}},
    {NAME("jwt"), true, {"token", false, true, false}},
    {NAME("bearer"), true, {"token", false, true, false}},
    {NAME("apikey"), false, {"key", false, false, false}},
    {NAME("accesskey"), false, {"key", false, false, false}},
    {NAME("secretkey"), false, {"key", false, false, false}},
    {NAME("privatekey"), false, {"key", false, false, false}},
    {NAME("authkey"), false, {"key", false, false, false}},
    {NAME("encryptionkey"), false, {"key", false, false, false}},
    {NAME("signingkey"), false, {"key", false, false, false}},
    {NAME("masterkey"), false, {"key", false, false, false}},
    {NAME("accountkey"), false, {"key", false, false, false}},
    {NAME("sharedkey"), false, {"key", false, false, false}},
    {NAME("amzsignature"), false, {"key", false, false, false}},
    {NAME("credential"), false, {"credentials", false, false, false}},
    {NAME("credentials"), false, {"credentials", false, false, false}},
    {NAME("authorization"), false, {"credentials", true, false, false}},
    {NAME("cookie"), true, {"cookie", true, false, false}},
    {NAME("sessionid"), false, {"session", false, false, false}},
    {NAME("sharedaccesssignature"), false, {"key", false, false, false}},
    {NAME("sig"), true, {"key", false, false, true}},
    {NAME("basic"), true, {"credentials", false, false, true}},
    {NAME("auth"), true, {"credentials", false, false, true}},
};
static const ss_secret_name by_host = {"secret", false, false, false};

/* What may stand behind such a name, as in db_password_prod or secret_key_base. */
static const struct variant {
    const char *ends;
    size_t length;
} variants[] = {
    {NAME("prod")},    {NAME("production")},  {NAME("stage")},        {NAME("staging")},
    {NAME("dev")},     {NAME("development")}, {NAME("test")},         {NAME("live")},
    {NAME("old")},     {NAME("new")},         {NAME("current")},      {NAME("previous")},
    {NAME("primary")}, {NAME("secondary")},   {NAME("backup")},       {NAME("main")},
    {NAME("default")}, {NAME("value")},       {NAME("text")},         {NAME("plain")},
    {NAME("raw")},     {NAME("base")},        {NAME("hash")},         {NAME("confirm")},
    {NAME("local")},   {NAME("env")},         {NAME("confirmation")},
};

/* The last character of the text from BEGIN to END, but for case, '_' and '-'; 0: there is none.
   Most names differ in it already. */
static uint32_t last_of(const ss_text *text, size_t begin, size_t end)
{
    while (end > begin) {
        uint32_t c = ss_text_at(text, --end);

        if (c != '_' && c != '-')
            return ss_lower(c);
    }
    return 0;
}

/* Whether the text from BEGIN to END ends in the LEFT characters of NAME, but for case, '_' and
   '-'. */
static bool ends_in(const ss_text *text, size_t begin, size_t end, const char *name, size_t left,
                    bool whole)
{
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

/* Whether a name has more parts than one, as db_password_prod, dbPassword and password1. */
static bool has_parts(const ss_text *text, size_t begin, size_t end)
{
    for (size_t at = begin + 1; at < end; at++) {
        uint32_t c = ss_text_at(text, at);

        if (!ss_is_letter(c) || ss_lower(c) != c)
            return true;
    }
    return false;
}

/* END without a variant or a number; END itself if there is none. */
static size_t before_variant(const ss_text *text, size_t begin, size_t end)
{
    uint32_t last = last_of(text, begin, end);
    size_t at = end;

    while (at > begin && (ss_is_digit(ss_text_at(text, at - 1)) ||
                          ss_text_at(text, at - 1) == '_' || ss_text_at(text, at - 1) == '-'))
        at--;
    if (at < end)
        return at;
    for (size_t i = 0; i < SS_COUNT_OF(variants); i++) {
        const struct variant *v = &variants[i];

        if ((unsigned char)v->ends[v->length - 1] == last &&
            ends_in(text, begin, end, v->ends, v->length, true))
            return end - v->length;
    }
    return end;
}

static const ss_secret_name *find_name(const ss_rules *rules, const ss_text *text, size_t begin,
                                       size_t end)
{
    uint32_t last = last_of(text, begin, end);

    for (size_t i = 0; i < SS_COUNT_OF(known_names); i++) {
        const struct known_name *name = &known_names[i];

        if ((unsigned char)name->ends[name->length - 1] == last &&
            ends_in(text, begin, end, name->ends, name->length, name->whole))
            return &name->is;
    }
    for (uint32_t i = 0; i < rules->name_count; i++) {
        if (ends_in(text, begin, end, rules->names[i], strlen(rules->names[i]), true))
            return &by_host;
    }
    return NULL;
}

const ss_secret_name *ss_secret_name_of(const ss_rules *rules, const ss_text *text, size_t begin,
                                        size_t end)
{
    const ss_secret_name *found = NULL;
    size_t shorter = end;

    if (end - begin > NAME_SEEN)
        begin = end - NAME_SEEN;
    do {
        end = shorter;
        found = find_name(rules, text, begin, end);
        shorter = found || !has_parts(text, begin, end) ? end : before_variant(text, begin, end);
    } while (shorter < end && shorter > begin);
    return found;
}

static bool is_sign(uint32_t c)
{
    return ss_is_quote(c) || c == '=' || c == ':' || c == '(' || c == '!' || c == '~' || c == '\\';
}

/* Whether a value can follow the word from BEGIN to END: most words of a text are looked at no
   further. */
static bool may_have_value(const ss_scan *s, size_t begin, size_t end)
{
    size_t at = end;

    if (!ss_is_blank(ss_scan_at(s, end)))
        return is_sign(ss_scan_at(s, end));
    while (ss_is_blank(ss_scan_at(s, at)))
        at++;
    return is_sign(ss_scan_at(s, at)) || ss_scan_at(s, begin) == '-' ||
           ss_scan_has(s, begin, "bearer") || ss_scan_has(s, begin, "basic");
}

bool ss_scan_named(const ss_scan *s, size_t at, ss_secret *secret)
{
    const ss_secret_name *name;
    size_t end = at;

    while (ss_is_of_name(ss_scan_at(s, end)))
        end++;
    if (!may_have_value(s, at, end))
        return false;
    name = ss_secret_name_of(s->rules, &s->text, at, end);
    return name && ss_scan_value(s, name, at, end, secret);
}
