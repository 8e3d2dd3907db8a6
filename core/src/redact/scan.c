#include "redact/scan.h"

/* In source, note where literals begin and end. */
static void pass(ss_scan *s, uint32_t c)
{
    s->at++;
    if (!s->is_source)
        return;
    if (s->in_quote && c == '\\')
        s->at++;
    else if (s->in_quote)
        s->in_quote = c == s->in_quote ? 0 : s->in_quote;
    else if (ss_is_quote(c))
        s->in_quote = c;
}

/* Whether a secret begins at the current place, or, an e-mail address, is around it. */
static bool find(const ss_scan *s, uint32_t c, ss_secret *secret)
{
    uint32_t rules = s->rules->rules, before = s->at > s->done ? ss_scan_at(s, s->at - 1) : 0;

    if (c == ':')
        return rules & STACKSPLICE_REDACT_URLS && ss_scan_url(s, s->at, secret);
    if (c == '@')
        return rules & STACKSPLICE_REDACT_EMAILS && ss_scan_email(s, s->at, secret);
    if (c == '-' && rules & STACKSPLICE_REDACT_TOKENS && ss_scan_private_key(s, s->at, secret))
        return true;
    if (!ss_is_of_name(c))
        return false;
    if (rules & STACKSPLICE_REDACT_TOKENS && !ss_is_alnum(before) &&
        ss_scan_token(s, s->at, secret))
        return true;
    return rules & STACKSPLICE_REDACT_NAMED && !ss_is_of_name(before) &&
           ss_scan_named(s, s->at, secret);
}

bool ss_scan_next(ss_scan *s, ss_secret *secret)
{
    while (s->at < s->text.length) {
        uint32_t c = ss_scan_at(s, s->at);

        if (find(s, c, secret)) {
            s->at = s->done = secret->end;
            /* A value in quotes of its own: the opening one was passed over, the closing one not.
             */
            if (s->is_source && !s->in_quote && ss_is_quote(ss_scan_at(s, s->at)))
                s->at++;
            return true;
        }
        pass(s, c);
    }
    return false;
}
