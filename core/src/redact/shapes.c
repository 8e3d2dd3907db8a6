/* Secrets known by their form: tokens, private keys, credentials in URLs, e-mail addresses. */
#include "redact/scan.h"

#include <string.h>

/* ---- Tokens ----------------------------------------------------------------------------------*/

/* A prefix, and the fewest letters, digits and characters of MORE that follow it. */
static const struct shape {
    const char *prefix;
    unsigned fewest;
    const char *more;
    const char *kind;
} shapes[] = {
    {"AKIA", 16, "", "AWS key"},
    {"ASIA", 16, "", "AWS key"},
    {"ghp_", 30, "", "GitHub token"},
    {"gho_", 30, "", "GitHub token"},
    {"ghu_", 30, "", "GitHub token"},
    {"ghs_", 30, "", "GitHub token"},
    {"ghr_", 30, "", "GitHub token"},
    {"github_pat_", 22, "_", "GitHub token"},
    {"glpat-", 20, "_-", "GitLab token"},
    {"xoxa-", 10, "-", "Slack token"},
    {"xoxb-", 10, "-", "Slack token"},
    {"xoxe-", 10, "-", "Slack token"},
    {"xoxp-", 10, "-", "Slack token"},
    {"xoxr-", 10, "-", "Slack token"},
    {"xoxs-", 10, "-", "Slack token"},
    {"xapp-", 10, "-", "Slack token"},
    {"AIza", 35, "_-", "Google key"},
    {"sk_live_", 16, "", "Stripe key"},
    {"rk_live_", 16, "", "Stripe key"},
    {"sk_test_", 16, "", "Stripe key"},
    {"sk-", 32, "_-", "key"},
    {"npm_", 36, "", "npm token"},
    {"pypi-", 32, "_-", "PyPI token"},
    {"hf_", 30, "", "Hugging Face token"},
    {"SG.", 40, "._-", "SendGrid key"},
    {"SK", 32, "", "Twilio key"},
    {"dckr_pat_", 20, "_-", "Docker token"},
    {"hooks.slack.com/services/", 20, "/", "Slack webhook"},
};
static const char firsts[] = "AghxsrnpeSd"; /* with which a shape or a JWT begins */

static bool is_one_of(uint32_t c, const char *more)
{
    return ss_is_alnum(c) || (c && c < 128 && strchr(more, (int)c));
}

static size_t run_end(const ss_scan *s, size_t at, const char *more)
{
    while (is_one_of(ss_scan_at(s, at), more))
        at++;
    return at;
}

static bool begins_with(const ss_scan *s, size_t at, const char *prefix)
{
    while (*prefix && ss_scan_at(s, at) == (unsigned char)*prefix) {
        prefix++;
        at++;
    }
    return !*prefix;
}

/* Three parts of base64 with dots between; the first is a JSON object. */
static bool is_jwt(const ss_scan *s, size_t at, size_t *end)
{
    size_t first, second;

    if (!begins_with(s, at, "eyJ"))
        return false;
    first = run_end(s, at, "_-");
    if (first < at + 12 || ss_scan_at(s, first) != '.')
        return false;
    second = run_end(s, first + 1, "_-");
    *end = ss_scan_at(s, second) == '.' ? run_end(s, second + 1, "_-") : second;
    return second > first + 8;
}

static bool is_one_of_firsts(uint32_t c)
{
    return c && c < 128 && strchr(firsts, (int)c);
}

/* Client secrets of Azure have no prefix: three characters, a digit, "Q~" and 31 to 34 more. */
static bool is_azure(const ss_scan *s, size_t at, size_t *end)
{
    if (ss_scan_at(s, at + 4) != 'Q' || ss_scan_at(s, at + 5) != '~' ||
        !ss_is_digit(ss_scan_at(s, at + 3)))
        return false;
    *end = run_end(s, at + 6, "_~.-");
    return *end >= at + 37;
}

bool ss_scan_token(const ss_scan *s, size_t at, ss_secret *secret)
{
    secret->begin = at;
    secret->kind = "Azure secret";
    if (is_azure(s, at, &secret->end))
        return true;
    if (!is_one_of_firsts(ss_scan_at(s, at)))
        return false;
    for (size_t i = 0; i < SS_COUNT_OF(shapes); i++) {
        size_t body = at + strlen(shapes[i].prefix);

        if (!begins_with(s, at, shapes[i].prefix))
            continue;
        secret->end = run_end(s, body, shapes[i].more);
        secret->kind = shapes[i].kind;
        return secret->end >= body + shapes[i].fewest;
    }
    secret->kind = "JWT";
    return is_jwt(s, at, &secret->end);
}

/* ---- Private keys ----------------------------------------------------------------------------*/

bool ss_scan_private_key(const ss_scan *s, size_t at, ss_secret *secret)
{
    size_t label = at + 11, end;

    if (!begins_with(s, at, "-----BEGIN "))
        return false;
    while (label < at + 64 && !begins_with(s, label, "PRIVATE KEY"))
        label++;
    if (label == at + 64)
        return false;
    for (end = label; end < s->text.length && !begins_with(s, end, "-----END "); end++) {
    }
    if (end < s->text.length) {
        for (end += 9; end < s->text.length && !begins_with(s, end, "-----"); end++) {
        }
        end += end < s->text.length ? 5 : 0;
    }
    *secret = (ss_secret){at, end, "private key"};
    return true;
}

/* ---- URLs and addresses ----------------------------------------------------------------------*/

/* Whether the quote at END is that of a literal around the URL whose colon is at AT, and no part of
   a password. */
static bool ends_url(const ss_scan *s, size_t at, size_t end)
{
    uint32_t next = ss_scan_at(s, end + 1);
    size_t scheme = at;

    if (s->is_source && s->in_quote == ss_scan_at(s, end))
        return ss_scan_at(s, end - 1) != '\\';
    if (!ss_is_alnum(next) && next != '@' && !ss_is_quote(next))
        return true;
    while (scheme > s->done && at - scheme < 16 && is_one_of(ss_scan_at(s, scheme - 1), "+.-"))
        scheme--;
    return scheme > s->done && ss_scan_at(s, scheme - 1) == ss_scan_at(s, end) &&
           ss_scan_at(s, end - 1) != '\\';
}

/* "https://USER:PASSWORD@host"; at the colon. */
bool ss_scan_url(const ss_scan *s, size_t at, ss_secret *secret)
{
    size_t begin = at + 3, end = begin;
    bool found = false;

    if (at < s->done + 2 || !ss_is_alnum(ss_scan_at(s, at - 1)) || !begins_with(s, at, "://"))
        return false;
    if (at >= s->done + 3 && begins_with(s, at - 3, "ssh")) /* git@host is no secret */
        return false;
    for (;; end++) {
        uint32_t c = ss_scan_at(s, end);

        if (c <= ' ' || c == '/' || c == '?' || c == '#' || c == '<' || c == '>' ||
            (ss_is_quote(c) && ends_url(s, at, end)))
            break;
        if (c == '@' && end > begin) {
            *secret = (ss_secret){begin, end, "credentials"};
            found = true;
        }
    }
    return found && !begins_with(s, begin, "[redacted");
}

bool ss_scan_email(const ss_scan *s, size_t at, ss_secret *secret)
{
    size_t begin = at, end = at + 1, dot = 0;

    while (begin > s->done && at - begin < 64 && is_one_of(ss_scan_at(s, begin - 1), "._%+-"))
        begin--;
    for (; is_one_of(ss_scan_at(s, end), ".-"); end++)
        dot = ss_scan_at(s, end) == '.' && ss_is_alnum(ss_scan_at(s, end + 1)) ? end : dot;
    while (end > at && !ss_is_alnum(ss_scan_at(s, end - 1)))
        end--;
    *secret = (ss_secret){begin, end, "e-mail"};
    return begin < at && dot > at + 1;
}
