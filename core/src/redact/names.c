/* Names that tell of a secret: password, apiKey, DB_TOKEN_OLD. */
#include "redact/scan.h"

/* What the words below say. */
static const ss_secret_name
    password = {.kind = "password"},
    short_password = {.kind = "password", .whole = true},
    counted_pass = {.kind = "password", .whole = true, .is_counted = true},
    secret = {.kind = "secret"}, code = {.kind = "secret", .whole = true, .is_counted = true},
    token = {.kind = "token", .in_prose = true, .is_counted = true},
    bearer = {.kind = "token", .whole = true, .in_prose = true}, key = {.kind = "key"},
    token_list = {.kind = "token"}, credentials = {.kind = "credentials"},
    encoded_pair = {.kind = "credentials", .of_call = true},
    login = {.kind = "credentials", .exact = true, .of_call = true},
    identified = {.kind = "password", .exact = true},
    cookies = {.kind = "cookie", .whole = true, .is_counted = true},
    authorization = {.kind = "credentials", .to_line_end = true},
    cookie = {.kind = "cookie", .whole = true, .to_line_end = true},
    session_id = {.kind = "session"},
    short_session = {.kind = "session", .whole = true, .fewest = 8},
    session = {.kind = "session", .exact = true, .fewest = 8},
    csrf = {.kind = "token", .exact = true, .fewest = 8},
    auth = {.kind = "credentials", .exact = true, .fewest = 8},
    address = {.kind = "address", .exact = true, .of_variable = true},
    signature = {.kind = "key", .whole = true, .of_text = true, .fewest = 12},
    scheme = {.kind = "credentials", .whole = true, .of_text = true, .fewest = 12};

/* A name ends in one of these words; by their last character.  The first one that fits counts. */
typedef struct known_word {
    const char *word;
    size_t length;
    const ss_secret_name *is;
} known_word;

#define WORD(word, is)                \
    {                                 \
        word, sizeof(word) - 1, &(is) \
    }
#define WORDS(...)        \
    (const known_word[])  \
    {                     \
        __VA_ARGS__,      \
        {                 \
            NULL, 0, NULL \
        }                 \
    }
static const known_word *const words_by_last[128] = {
    ['a'] = WORDS(WORD("contrasena", password), WORD("senha", code)),
    ['c'] = WORDS(WORD("cvc", code), WORD("mnemonic", code), WORD("hmac", signature),
                  WORD("basic", scheme)),
    ['d'] = WORDS(WORD("password", password), WORD("passwd", password), WORD("userpwd", password),
                  WORD("dbpwd", password), WORD("ftppwd", password), WORD("adminpwd", password),
                  WORD("wachtwoord", password), WORD("pwd", short_password), WORD("otpseed", code),
                  WORD("identified", identified), WORD("sessionid", session_id),
                  WORD("phpsessid", short_session), WORD("sessid", short_session),
                  WORD("sid", short_session)),
    ['e'] = WORDS(
        WORD("passphrase", password), WORD("passcode", password), WORD("motdepasse", password),
        WORD("seedphrase", code), WORD("recoverycode", code), WORD("amzsignature", key),
        WORD("sharedaccesssignature", key), WORD("authenticate", login), WORD("cookie", cookie),
        WORD("signature", signature), WORD("samlresponse", signature)),
    ['f'] = WORDS(WORD("csrf", csrf), WORD("xsrf", csrf)),
    ['g'] = WORDS(WORD("sig", signature)),
    ['h'] = WORDS(WORD("basicauth", encoded_pair), WORD("digestauth", encoded_pair),
                  WORD("auth", auth), WORD("auth", scheme)),
    ['k'] = WORDS(WORD("psk", code)),
    ['l'] = WORDS(WORD("credential", credentials)),
    ['n'] = WORDS(WORD("ssn", code), WORD("token", token), WORD("login", login),
                  WORD("authorization", authorization), WORD("usersession", session),
                  WORD("aiohttpsession", session), WORD("laravelsession", session),
                  WORD("session", session), WORD("assertion", signature)),
    ['p'] = WORDS(WORD("otp", code), WORD("totp", code), WORD("xrealip", address)),
    ['r'] =
        WORDS(WORD("bearer", bearer), WORD("xforwardedfor", address), WORD("remoteaddr", address)),
    ['s'] =
        WORDS(WORD("passwords", password), WORD("storepass", password), WORD("keypass", password),
              WORD("sshpass", password), WORD("dbpass", password), WORD("ftppass", password),
              WORD("smtppass", password), WORD("userpass", password), WORD("rootpass", password),
              WORD("pass", counted_pass), WORD("secrets", secret), WORD("apikeys", key),
              WORD("accesskeys", key), WORD("secretkeys", key), WORD("privatekeys", key),
              WORD("accesstokens", token_list), WORD("authtokens", token_list),
              WORD("apitokens", token_list), WORD("refreshtokens", token_list),
              WORD("bearertokens", token_list), WORD("sessiontokens", token_list),
              WORD("usertokens", token_list), WORD("credentials", credentials),
              WORD("creds", credentials), WORD("cookies", cookies), WORD("ipaddress", address)),
    ['t'] = WORDS(WORD("passwort", password), WORD("kennwort", password), WORD("secret", secret),
                  WORD("jwt", bearer), WORD("samlrequest", signature), WORD("salt", signature)),
    ['v'] = WORDS(WORD("cvv", code)),
    ['w'] = WORDS(WORD("adminpw", password), WORD("rootpw", password), WORD("userpw", password),
                  WORD("pw", short_password)),
    ['y'] = WORDS(WORD("apikey", key), WORD("accesskey", key), WORD("secretkey", key),
                  WORD("privatekey", key), WORD("authkey", key), WORD("encryptionkey", key),
                  WORD("signingkey", key), WORD("masterkey", key), WORD("accountkey", key),
                  WORD("sharedkey", key), WORD("subscriptionkey", key), WORD("consumerkey", key),
                  WORD("licensekey", key), WORD("storagekey", key), WORD("fernetkey", key),
                  WORD("hmackey", key), WORD("sessionkey", key), WORD("appkey", key),
                  WORD("applicationkey", key), WORD("clientkey", key), WORD("serverkey", key),
                  WORD("decryptionkey", key), WORD("cryptokey", key), WORD("functionkey", key),
                  WORD("servicekey", key), WORD("integrationkey", key), WORD("ingestkey", key),
                  WORD("writekey", key), WORD("symfony", short_session)),
};
static const ss_secret_name by_host = {.kind = "secret", .whole = true};

/* What may stand behind such a name, as in db_password_prod or secret_key_base. */
static const char variants[] =
    "prod production stage staging dev development test live old new current previous primary "
    "secondary backup main default value text plain raw base hash confirm local env confirmation "
    "hint";

enum { NAME_SEEN = 64 }; /* of a longer name only the end counts */

/* A name in lower case without '_' and '-', and without the blank in "api key". */
typedef struct plain_name {
    char text[NAME_SEEN];
    bool begins[NAME_SEEN]; /* whether a word begins there */
    unsigned words;
    size_t length;
} plain_name;

static void read_name(const ss_text *text, size_t begin, size_t end, plain_name *n)
{
    uint32_t before = 0;

    n->length = n->words = 0;
    for (size_t at = end - begin > NAME_SEEN ? end - NAME_SEEN : begin; at < end; at++) {
        uint32_t c = ss_text_at(text, at), small = ss_lower(c);

        if (c != '_' && c != '-' && c != ' ') {
            bool begins = !ss_is_letter(before) || (c != small && before == ss_lower(before));

            n->words += begins;
            n->begins[n->length] = begins;
            n->text[n->length++] = (char)(c < 128 ? small : 127);
        }
        before = c;
    }
}

/* The length of the word of WORDS, which have blanks between, in which N ends; 0: in none. */
static size_t ends_in(const plain_name *n, const char *words, bool whole)
{
    char last = n->length ? n->text[n->length - 1] : 0;
    const char *end;

    for (; *words; words = *end ? end + 1 : end) {
        size_t length;

        for (end = words; *end && *end != ' ';)
            end++;
        length = (size_t)(end - words);
        if (last == end[-1] && n->length >= length &&
            !memcmp(n->text + n->length - length, words, length) &&
            (!whole || n->begins[n->length - length]))
            return length;
    }
    return 0;
}

/* Whether N ends in the word of ROW, of which the last character fits. */
static bool is_known(const plain_name *n, const known_word *row)
{
    size_t begin = n->length - row->length;

    return n->length >= row->length && n->text[n->length - 2] == row->word[row->length - 2] &&
           !memcmp(n->text + begin, row->word, row->length) &&
           (!row->is->whole || n->begins[begin]) && (!row->is->exact || !begin);
}

static const ss_secret_name *find_name(const ss_rules *rules, const plain_name *n)
{
    const known_word *row = n->length ? words_by_last[n->text[n->length - 1] & 127] : NULL;

    for (; row && row->word; row++) {
        if (is_known(n, row))
            return row->is;
    }
    for (uint32_t i = 0; i < rules->name_count; i++) {
        if (ends_in(n, rules->names[i], true))
            return &by_host;
    }
    return NULL;
}

/* Take a number or a variant off the end; false if there is none. */
static bool drop_variant(plain_name *n)
{
    size_t before = n->length;

    while (n->length && ss_is_digit((unsigned char)n->text[n->length - 1]))
        n->length--;
    if (n->words > 1 && n->length == before)
        n->length -= ends_in(n, variants, true);
    return n->length < before;
}

const ss_secret_name *ss_secret_name_of(const ss_rules *rules, const ss_text *text, size_t begin,
                                        size_t end)
{
    const ss_secret_name *found;
    plain_name n;

    read_name(text, begin, end, &n);
    do
        found = find_name(rules, &n);
    while (!found && drop_variant(&n));
    return found;
}
