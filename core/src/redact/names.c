/* Names that tell of a secret: password, apiKey, DB_TOKEN_OLD. */
#include "redact/scan.h"

/* A name ends in one of these words, which have blanks between.  Of an exact one longer ones are first. */
static const struct known_name {
    ss_secret_name is;
    const char *last; /* the last characters of these words, by which most names are told apart */
    const char *ends;
} known_names[] = {
    {{.kind = "password"},
     "dsetaop",
     "password passwords passwd passphrase passcode userpwd storepass keypass sshpass passwort "
     "kennwort motdepasse contrasena wachtwoord"},
    {{.kind = "password", .whole = true}, "dw", "pwd pw"},
    {{.kind = "password", .whole = true, .is_counted = true}, "s", "pass"},
    {{.kind = "secret"}, "ts", "secret secrets"},
    {{.kind = "secret", .whole = true, .is_counted = true},
     "ptcvnkdea",
     "otp totp otpseed cvv cvc ssn psk mnemonic seedphrase recoverycode senha"},
    {{.kind = "token", .in_prose = true, .is_counted = true}, "n", "token"},
    {{.kind = "token", .whole = true, .in_prose = true}, "tr", "jwt bearer"},
    {{.kind = "key"},
     "yes",
     "apikey accesskey secretkey privatekey authkey encryptionkey signingkey masterkey accountkey "
     "sharedkey amzsignature sharedaccesssignature apikeys accesskeys secretkeys privatekeys "
     "subscriptionkey consumerkey licensekey storagekey fernetkey hmackey sessionkey appkey "
     "applicationkey clientkey serverkey decryptionkey cryptokey functionkey servicekey "
     "integrationkey ingestkey writekey"},
    {{.kind = "token"},
     "s",
     "accesstokens authtokens apitokens refreshtokens bearertokens sessiontokens usertokens"},
    {{.kind = "credentials"}, "ls", "credential credentials creds"},
    {{.kind = "credentials", .of_call = true}, "h", "basicauth digestauth"},
    {{.kind = "credentials", .exact = true, .of_call = true}, "ne", "login authenticate"},
    {{.kind = "password", .exact = true}, "d", "identified"},
    {{.kind = "cookie", .whole = true, .is_counted = true}, "s", "cookies"},
    {{.kind = "credentials", .to_line_end = true}, "n", "authorization"},
    {{.kind = "cookie", .whole = true, .to_line_end = true}, "e", "cookie"},
    {{.kind = "session"}, "d", "sessionid"},
    {{.kind = "session", .whole = true, .fewest = 8}, "dy", "phpsessid sessid sid symfony"},
    {{.kind = "session", .exact = true, .fewest = 8},
     "n",
     "usersession aiohttpsession laravelsession session"},
    {{.kind = "token", .exact = true, .fewest = 8}, "f", "csrf xsrf"},
    {{.kind = "credentials", .exact = true, .fewest = 8}, "h", "auth"},
    {{.kind = "address", .exact = true, .of_variable = true},
     "rps",
     "xforwardedfor xrealip ipaddress remoteaddr"},
    {{.kind = "key", .whole = true, .of_text = true, .fewest = 12},
     "gecet",
     "sig signature hmac assertion samlresponse samlrequest salt"},
    {{.kind = "credentials", .whole = true, .of_text = true, .fewest = 12}, "ch", "basic auth"},
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

static const ss_secret_name *find_name(const ss_rules *rules, const plain_name *n)
{
    for (size_t i = 0; i < SS_COUNT_OF(known_names); i++) {
        const ss_secret_name *is = &known_names[i].is;
        size_t length;

        if (!n->length || !strchr(known_names[i].last, n->text[n->length - 1]))
            continue;
        length = ends_in(n, known_names[i].ends, is->whole);
        if (length && (!is->exact || length == n->length))
            return is;
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
