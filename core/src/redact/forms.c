/* Secrets known by their form: tokens, private keys, users and passwords in URLs, addresses. */
#include "redact/scan.h"

/* A prefix, in which '?' is any letter, and the fewest letters, digits and characters of MORE that
   follow it. */
typedef struct shape {
    const char *prefix;
    unsigned fewest;
    const char *more;
    const char *kind;
} shape;

/* The formats that services publish, by the first character. */
#define SHAPES(...)             \
    (const shape[])             \
    {                           \
        __VA_ARGS__,            \
        {                       \
            NULL, 0, NULL, NULL \
        }                       \
    }
static const shape *const shapes[128] = {
    ['$'] =
        SHAPES({"$2a$", 20, "./$", "password hash"}, {"$2b$", 20, "./$", "password hash"},
               {"$2y$", 20, "./$", "password hash"}, {"$1$", 20, "./$", "password hash"},
               {"$5$", 20, "./$=", "password hash"}, {"$6$", 20, "./$=", "password hash"},
               {"$y$", 20, "./$", "password hash"}, {"$argon2i", 30, "./$=,+", "password hash"}),
    ['a'] = SHAPES({"amzn.mws.", 36, "-", "AWS key"}),
    ['A'] =
        SHAPES({"AKIA", 16, "", "AWS key"}, {"ASIA", 16, "", "AWS key"},
               {"ABIA", 16, "", "AWS key"}, {"ABSK", 80, "+/=", "AWS key"},
               {"ACCA", 16, "", "AWS key"}, {"AIza", 35, "_-", "Google key"},
               {"AKCp", 60, "", "Artifactory key"}, {"ATATT3", 40, "_-=", "Atlassian token"},
               {"ATCTT3", 40, "_-=", "Atlassian token"}, {"AGE-SECRET-KEY-1", 58, "", "age key"},
               {"API-", 26, "", "Octopus key"}, {"ATBB", 28, "_-=", "Bitbucket token"}),
    ['C'] =
        SHAPES({"CFPAT-", 43, "_-", "Contentful token"}, {"CCIPAT_", 40, "_", "CircleCI token"}),
    ['E'] = SHAPES({"EAA", 90, "", "Facebook token"}, {"EZAK", 54, "", "EasyPost key"},
                   {"EZTK", 54, "", "EasyPost key"}),
    ['F'] = SHAPES({"FLWSECK", 12, "_-", "Flutterwave key"}),
    ['G'] = SHAPES({"GOCSPX-", 20, "_-", "Google secret"}, {"GR1348941", 20, "_-", "GitLab token"}),
    ['H'] = SHAPES({"HRKU-", 36, "_-", "Heroku key"}),
    ['L'] = SHAPES({"LTAI", 16, "", "Alibaba key"}),
    ['N'] = SHAPES({"NRAK-", 27, "", "New Relic key"}, {"NRJS-", 19, "", "New Relic key"},
                   {"NRII-", 30, "_-", "New Relic key"}),
    ['P'] = SHAPES({"PMAK-", 40, "-", "Postman key"}),
    ['S'] = SHAPES({"SG.", 40, "._-", "SendGrid key"}, {"SK", 32, "", "Twilio key"}),
    ['b'] = SHAPES({"bkua_", 40, "", "Buildkite token"}),
    ['d'] = SHAPES(
        {"dckr_pat_", 20, "_-", "Docker token"}, {"dckr_oat_", 20, "_-", "Docker token"},
        {"dop_v1_", 40, "", "DigitalOcean token"}, {"doo_v1_", 40, "", "DigitalOcean token"},
        {"dor_v1_", 40, "", "DigitalOcean token"}, {"dapi", 32, "-", "Databricks token"},
        {"dp.pt.", 40, "", "Doppler token"}, {"dp.st.", 40, "._-", "Doppler token"},
        {"dp.ct.", 40, "", "Doppler token"}, {"dt0c01.", 60, ".", "Dynatrace token"},
        {"duffel_live_", 40, "_-=", "Duffel token"}, {"duffel_test_", 40, "_-=", "Duffel token"},
        {"discord.com/api/webhooks/", 60, "/_-", "Discord webhook"},
        {"discordapp.com/api/webhooks/", 60, "/_-", "Discord webhook"}),
    ['f'] = SHAPES({"fo1_", 40, "_-", "Fly token"}, {"fm2_", 80, "+/=", "Fly token"},
                   {"fm1?_", 80, "+/=", "Fly token"}, {"fio-u-", 60, "_-=", "Frame.io token"},
                   {"figd_", 40, "_-", "Figma token"}, {"figo?_", 40, "_-", "Figma token"}),
    ['g'] = SHAPES({"gh?_", 30, "", "GitHub token"}, {"github_pat_", 22, "_", "GitHub token"},
                   {"glpat-", 20, "_-.", "GitLab token"}, {"glptt-", 20, "_-", "GitLab token"},
                   {"gldt-", 20, "_-", "GitLab token"}, {"glrt-", 20, "_-.", "GitLab token"},
                   {"glcbt-", 20, "_-", "GitLab token"}, {"glft-", 20, "_-", "GitLab token"},
                   {"glimt-", 20, "_-", "GitLab token"}, {"glagent-", 40, "_-", "GitLab token"},
                   {"gloas-", 40, "_-", "GitLab token"}, {"glsoat-", 20, "_-", "GitLab token"},
                   {"glffct-", 20, "_-", "GitLab token"}, {"glsa_", 32, "_", "Grafana token"},
                   {"glc_", 32, "+/=", "Grafana token"}, {"gsk_", 40, "", "Groq key"}),
    ['h'] = SHAPES({"hf_", 30, "", "Hugging Face token"},
                   {"hooks.slack.com/", 20, "/", "Slack webhook"},
                   {"hvs.", 24, "_-", "Vault token"}, {"hvb.", 60, "_-", "Vault token"}),
    ['k'] = SHAPES({"key-", 32, "", "Mailgun key"}),
    ['l'] = SHAPES({"lin_api_", 32, "", "Linear key"}, {"lin_oauth_", 32, "", "Linear key"},
                   {"lsv2_pt_", 32, "_", "LangSmith key"}, {"lsv2_sk_", 32, "_", "LangSmith key"}),
    ['n'] = SHAPES({"npm_", 36, "", "npm token"}, {"ntn_", 40, "", "Notion token"},
                   {"nfp_", 36, "", "Netlify token"}, {"nvapi-", 60, "_-", "NVIDIA key"}),
    ['o'] = SHAPES({"ops_eyJ", 80, "+/=", "1Password token"},
                   {"outlook.office.com/webhook/", 60, "/@-", "Teams webhook"}),
    ['p'] =
        SHAPES({"pbkdf2_sha256$", 24, "$+/=", "password hash"}, {"pypi-", 32, "_-", "PyPI token"},
               {"pul-", 40, "", "Pulumi token"}, {"pplx-", 40, "", "Perplexity key"},
               {"pnu_", 36, "", "Prefect key"}, {"pscale_tkn_", 32, "_.=-", "PlanetScale token"},
               {"pscale_pw_", 32, "_.=-", "PlanetScale password"},
               {"pscale_oauth_", 32, "_.=-", "PlanetScale token"},
               {"phx_", 40, "_-", "PostHog key"}, {"pat", 78, ".", "Airtable token"},
               {"pat-na1-", 36, "-", "HubSpot token"}, {"pat-eu1-", 36, "-", "HubSpot token"}),
    ['r'] = SHAPES({"rk_live_", 16, "", "Stripe key"}, {"rk_test_", 16, "", "Stripe key"},
                   {"rubygems_", 40, "", "RubyGems key"}, {"rdme_", 60, "", "ReadMe key"},
                   {"r8_", 37, "", "Replicate token"}, {"rnd_", 28, "", "Render key"}),
    ['s'] =
        SHAPES({"sk_live_", 16, "", "Stripe key"}, {"sk_test_", 16, "", "Stripe key"},
               {"sk-", 32, "_-", "key"}, {"shp??_", 32, "", "Shopify token"},
               {"shippo_live_", 40, "", "Shippo token"}, {"shippo_test_", 40, "", "Shippo token"},
               {"sntrys_", 40, "+/=_", "Sentry token"}, {"sntryu_", 40, "", "Sentry token"},
               {"sq0atp-", 22, "_-", "Square token"}, {"sq0csp-", 22, "_-", "Square secret"},
               {"sgp_", 40, "_", "Sourcegraph token"}, {"sbp_", 40, "", "Supabase token"},
               {"secret_", 43, "", "Notion token"}, {"sl.", 130, "_-", "Dropbox token"},
               {"sha256~", 43, "_-", "OpenShift token"}),
    ['t'] = SHAPES({"tskey-", 20, "-", "Tailscale key"}, {"tvly-", 20, "-", "Tavily key"}),
    ['v'] = SHAPES({"vercel_", 24, "", "Vercel token"}, {"v1.0-", 100, "-", "Cloudflare key"}),
    ['w'] = SHAPES({"whsec_", 24, "+/=", "Stripe secret"},
                   {"webhook.office.com/webhookb2/", 60, "/@-", "Teams webhook"}),
    ['x'] = SHAPES({"xox?-", 10, "-", "Slack token"}, {"xoxe.xox?-", 10, "-", "Slack token"},
                   {"xapp-", 10, "-", "Slack token"}, {"xkeysib-", 60, "-", "Brevo key"},
                   {"xsmtpsib-", 60, "-", "Brevo key"}, {"xai-", 60, "", "xAI key"}),
    ['y'] = SHAPES({"ya29.", 20, "_-.", "Google token"}),
};

/* Three parts of base64 with dots between; the first is a JSON object.  What is refused in a run is
   refused behind each '-' of that run, which is not read again. */
static bool is_jwt(ss_scan *s, size_t at, size_t *end)
{
    size_t first, second;

    if (at < s->refused || !begins_with(s, at, "eyJ"))
        return false;
    first = run_end(s, at, "_-");
    s->refused = first;
    if (first < at + 12 || ss_scan_at(s, first) != '.')
        return false;
    second = run_end(s, first + 1, "_-");
    *end = ss_scan_at(s, second) == '.' ? run_end(s, second + 1, "_-") : second;
    return second > first + 8;
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

/* Terraform's: 14 characters, ".atlasv1." and 60 more. */
static bool is_terraform(const ss_scan *s, size_t at, size_t *end)
{
    if (ss_scan_at(s, at + 14) != '.' || !begins_with(s, at + 14, ".atlasv1."))
        return false;
    *end = run_end(s, at + 23, "_=-");
    return *end >= at + 83;
}

/* Discord's bots: a number in base64, six characters of time, and 27 or more, with dots between. */
static bool is_discord(const ss_scan *s, size_t at, size_t *end)
{
    size_t first = at;

    while (first < at + 30 && is_alnum_or(ss_scan_at(s, first), "_-"))
        first++;
    if (first < at + 23 || ss_scan_at(s, first) != '.' || ss_scan_at(s, first + 7) != '.')
        return false;
    *end = run_end(s, first + 8, "_-");
    return *end >= first + 8 + 27;
}

static bool is_of_shape(const ss_scan *s, size_t at, const shape *row, size_t *end)
{
    size_t body = at + strlen(row->prefix);

    if (!begins_with(s, at, row->prefix))
        return false;
    *end = run_end(s, body, row->more);
    return *end >= body + row->fewest;
}

bool ss_scan_token(ss_scan *s, size_t at, ss_secret *secret)
{
    uint32_t first = ss_scan_at(s, at), second = ss_scan_at(s, at + 1);

    secret->begin = at;
    secret->quote = s->in_quote;
    if (!ss_is_alnum(second)) /* no prefix has one character */
        return false;
    for (const shape *row = first < 128 ? shapes[first] : NULL; row && row->prefix; row++) {
        secret->kind = row->kind;
        if ((row->prefix[1] == '?' || (unsigned char)row->prefix[1] == second) &&
            is_of_shape(s, at, row, &secret->end))
            return true;
    }
    secret->kind = "Azure secret";
    if (is_azure(s, at, &secret->end))
        return true;
    secret->kind = "Terraform token";
    if (is_terraform(s, at, &secret->end))
        return true;
    secret->kind = "Discord token";
    if (first - 'M' < 3 && is_discord(s, at, &secret->end))
        return true;
    secret->kind = "JWT";
    return first == 'e' && is_jwt(s, at, &secret->end);
}

/* A bot of Telegram: its number, a colon, "AA" and 33 characters; at the colon. */
bool ss_scan_bot(const ss_scan *s, size_t at, ss_secret *secret)
{
    size_t begin = at, end;

    while (begin > s->done && at - begin < 11 && ss_is_digit(ss_scan_at(s, begin - 1)))
        begin--;
    if (at < begin + 8 || !begins_with(s, at + 1, "AA"))
        return false;
    for (end = at + 1; end < at + 1 + 64 && is_alnum_or(ss_scan_at(s, end), "_-");)
        end++;
    *secret = (ss_secret){begin, end, "Telegram token", s->in_quote};
    return end >= at + 1 + 33;
}

bool ss_scan_private_key(const ss_scan *s, size_t at, ss_secret *secret)
{
    size_t label, end, most = at + 64;

    if (!begins_with(s, at, "-----BEGIN "))
        return false;
    label = find_text(s, at + 11, most, "PRIVATE KEY");
    if (label == most)
        return false;
    end = find_text(s, label, s->text.length, "-----END ");
    end = find_text(s, end + 9, s->text.length, "-----") + 5;
    *secret =
        (ss_secret){at, end < s->text.length ? end : s->text.length, "private key", s->in_quote};
    return true;
}

/* ---- URLs ------------------------------------------------------------------------------------*/

enum {
    ODD_SEEN = 128, /* of a password with characters that end a host */
    PORT_DIGITS = 5,
    USER_IS_TOKEN = 12, /* characters, of them a digit; or */
    USER_IS_LONG = 20
};

/* Whether letters and digits, "@" and a host are behind the quote at END, which is so a part of a
   password. */
static bool is_host_behind(const ss_scan *s, size_t end)
{
    size_t at = end + 1;

    while (at < end + 32 && is_alnum_or(ss_scan_at(s, at), "_-.!$*+"))
        at++;
    return ss_scan_at(s, at) == '@' && ss_is_alnum(ss_scan_at(s, at + 1));
}

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
    if (!s->is_source && ss_is_alnum(next) && is_host_behind(s, end))
        return false;
    while (scheme > s->done && at - scheme < 16 && is_alnum_or(ss_scan_at(s, scheme - 1), "+.-"))
        scheme--;
    return scheme > s->done && ss_scan_at(s, scheme - 1) == ss_scan_at(s, end) &&
           ss_scan_at(s, end - 1) != '\\';
}

/* Whether a port, or nothing, is between the colon at AT and END. */
static bool is_port(const ss_scan *s, size_t at, size_t end)
{
    size_t digits = at + 1;

    while (digits <= at + PORT_DIGITS && ss_is_digit(ss_scan_at(s, digits)))
        digits++;
    return digits >= end && (end > at + 1 || !ss_is_any(ss_scan_at(s, end), "#?"));
}

/* Behind '/', '#', '?' or a blank at END, which a password may have, to the last '@' in front of a
   host; 0 if there is none. */
static size_t odd_end(const ss_scan *s, size_t at, size_t end)
{
    size_t most = end + ODD_SEEN, found = 0;

    for (; end < most && !ends_line(s, end); end++) {
        uint32_t c = ss_scan_at(s, end);

        if (ss_is_any(c, "<>") || begins_with(s, end, "://") ||
            (ss_is_quote(c) && ends_url(s, at, end)) || (c == ' ' && found))
            break;
        if (c == '@' && is_alnum_or(ss_scan_at(s, end + 1), "["))
            found = end;
    }
    return found;
}

/* Whether what stands before '@' without a password is a token, not the name of a user. */
static bool is_user_a_token(const ss_scan *s, size_t begin, size_t end)
{
    bool has_digit = false;

    for (size_t at = begin; at < end && !has_digit; at++)
        has_digit = ss_is_digit(ss_scan_at(s, at));
    return end - begin >= USER_IS_LONG || (has_digit && end - begin >= USER_IS_TOKEN);
}

/* Whether it is that of a template or a usage: {user}, ${USER}, [USER, <user>, user:password. */
static bool is_template(const ss_scan *s, size_t begin, size_t colon, size_t end)
{
    size_t at = colon ? colon + 1 : begin;
    uint32_t c = ss_scan_at(s, at);

    if (ss_is_any(c, "{<%") || (c == '$' && ss_is_any(ss_scan_at(s, at + 1), "{(")) ||
        ss_scan_at(s, begin) == '[')
        return true;
    return is_word_of(s, begin, end, "user:pass user:passwd user:password username:password :@");
}

/* "https://USER:PASSWORD@host"; at the colon. */
bool ss_scan_url(const ss_scan *s, size_t at, ss_secret *secret)
{
    bool is_escaped = begins_with(s, at, ":\\/\\/"); /* as JSON may have it */
    size_t begin = at + (is_escaped ? 5 : 3), end = begin, colon = 0, last = 0;

    if (at < s->done + 2 || !ss_is_alnum(ss_scan_at(s, at - 1)) ||
        (!is_escaped && !begins_with(s, at, "://")))
        return false;
    for (;; end++) {
        uint32_t c = ss_scan_at(s, end);

        if (c <= ' ' || ss_is_any(c, "/?#<>") || (ss_is_quote(c) && ends_url(s, at, end)))
            break;
        if (c == ':' && !colon && !last)
            colon = end;
        if (c == '@' && end > begin)
            last = end;
    }
    if (!last && colon && colon > begin && ss_scan_at(s, begin) != '[' &&
        ss_is_any(ss_scan_at(s, end), "/?# ") && !is_port(s, colon, end))
        last = odd_end(s, at, end);
    if (!last || begins_with(s, begin, "[redacted") || is_template(s, begin, colon, last) ||
        (!colon && !is_user_a_token(s, begin, last)))
        return false;
    *secret = (ss_secret){begin, last, "credentials", s->in_quote};
    return true;
}

/* "USER:PASSWORD@tcp(host)", as Go has it; at the "@". */
bool ss_scan_source_name(const ss_scan *s, size_t at, ss_secret *secret)
{
    size_t begin = at;

    if (!begins_with(s, at, "@tcp(") && !begins_with(s, at, "@unix("))
        return false;
    while (begin > s->done && at - begin < 64 && ss_scan_at(s, begin - 1) > ' ' &&
           !ss_is_quote(ss_scan_at(s, begin - 1)))
        begin--;
    *secret = (ss_secret){begin, at, "credentials", s->in_quote};
    return find_text(s, begin, at, ":") < at && ss_scan_at(s, begin) != '[';
}

bool ss_scan_email(const ss_scan *s, size_t at, ss_secret *secret)
{
    size_t begin = at, end = at + 1, dot = 0;

    while (begin > s->done && at - begin < 64 && is_alnum_or(ss_scan_at(s, begin - 1), "._%+-"))
        begin--;
    for (; is_alnum_or(ss_scan_at(s, end), ".-"); end++)
        dot = ss_scan_at(s, end) == '.' && ss_is_alnum(ss_scan_at(s, end + 1)) ? end : dot;
    while (end > at && !ss_is_alnum(ss_scan_at(s, end - 1)))
        end--;
    *secret = (ss_secret){begin, end, "e-mail", s->in_quote};
    return begin < at && dot > at + 1;
}
