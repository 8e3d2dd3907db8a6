/*
 * Texts as programs write them.  In those with secrets each secret ends in the letters R3T; none of
 * them is left.  Messages of parsers and validators are left as they are.
 */
#include <stacksplice/redact.h>
#include "support.h"

#include <stdlib.h>
#include <string.h>

typedef struct written {
    char text[4096];
    size_t length;
} written;

static int keep(const char *text, size_t length, void *data)
{
    written *out = data;

    if (length >= sizeof out->text - out->length)
        return 1;
    memcpy(out->text + out->length, text, length);
    out->length += length;
    out->text[out->length] = '\0';
    return 0;
}

static const char *redacted(const char *text, stacksplice_text_kind kind)
{
    static written out;

    out = (written){"", 0};
    assert_int_equal(stacksplice_redact(text, strlen(text), kind, keep, &out), S_OK);
    return out.text;
}

#define B64 "S3CR3TS3CR3TS3CR3TS3CR3TS3CR3TS3CR3TS3CR3T"

static const char *const secrets[] = {
    /* headers */
    "Authorization: Digest username=\"bob\", realm=\"r\", nonce=\"n\", response=\"S3CR3T\"",
    "Authorization: Digest username=\"bob\",\r\n realm=\"r\",\r\n response=\"S3CR3T\"\r\nHost: x",
    "GET / HTTP/1.1\r\nauthorization: Bearer S3CR3T more S3CR3T\r\nHost: x",
    "Proxy-Authorization: Basic S3CR3T==",
    "curl -H 'Authorization: Digest username=\"bob\", response=\"S3CR3T\"' http://h/",
    "curl -H \"Authorization: Token S3CR3T\" http://h/",
    "{\"headers\": {\"Authorization\": \"Digest username=\\\"b\\\", response=\\\"S3CR3T\\\"\"}}",
    "X-Api-Key: S3CR3T",
    "X-Auth-Token: S3CR3T",
    "sent Basic dXNlcjpS3CR3T== to the server",
    "Bearer S3CR3TS3CR3T",
    /* cookies */
    "Cookie: a=\"1\"; sid=S3CR3T",
    "Cookie: \"a\"; sid=S3CR3T",
    "Set-Cookie: sid=\"S3CR3T\"; Path=/; HttpOnly; tag=\"S3CR3T\"",
    "['Cookie: a=\"1\"; sid=S3CR3T', 'Host: x']",
    "\"log\": \"Cookie: a=\\\"1\\\"; sid=S3CR3T\"",
    "cookie='sid=S3CR3T; a=\"1\"'",
    /* URLs */
    "http://user:S3C'R3T@host/",
    "cannot open 'http://user:S3CR3T\\'S3CR3T@host/'",
    "postgres://bob:S3CR3T\"S3CR3T@db/orders",
    "redis://:S3CR3T@cache:6379/0",
    "amqp+ssl://bob:S3CR3T@q/",
    "{\"u\":\"https://bob:S3CR3T@h\",\"m\":\"x\"}",
    "https://h/p?access_token=S3CR3T&x=1",
    "https://h/c?se=2026&sp=r&sig=S3CR3TS3CR3T%3D&x=1",
    "https://hooks.slack.com/services/T00000000/B00000000/S3CR3TS3CR3TS3CR3T",
    /* JSON, Python, Lua, C */
    "{\"password\":\"S3CR3T\",\"user\":\"bob\"}",
    "{\"password\": \"S3C\\\"R3T S3CR3T\"}",
    "{\\\"password\\\":\\\"S3CR3T\\\",\\\"n\\\":1}",
    "{'db': {'passwd': 'S3CR3T', 'port': 1}}",
    "{password = \"S3CR3T\", user = \"bob\"}",
    "passwords: ['S3CR3T', 'S3CR3T']",
    "Config(password='S3CR3T', client_secret=\"S3CR3T\")",
    "{\"auths\": {\"https://index.docker.io/v1/\": {\"auth\": \"dXNlcjpTS3CR3T=\"}}}",
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=S3CR3T/S3CR3T==;EndpointSuffix=x",
    /* YAML, .env, ini, command lines */
    "user: bob\npassword: S3CR3T\nport: 1",
    "secret_key_base: S3CR3T",
    "production:\n  secret_key_base: S3CR3T\n",
    "password: |\n  S3CR3T\n  S3CR3T\nuser: bob",
    "  private_key: >-\n    S3CR3T\n\n    S3CR3T\n  user: bob",
    "DB_PASSWORD=S3CR3T;S3CR3T&S3CR3T)",
    "A=1\nexport API_TOKEN=S3CR3T,S3CR3T\nB=2",
    "PASSWORD=\"two words S3CR3T\"",
    "password1=S3CR3T",
    "password_2: S3CR3T",
    "db_password_prod=S3CR3T",
    "dbPasswordProd=S3CR3T",
    "API_KEY_OLD=S3CR3T",
    "token_live = 'S3CR3T'",
    "mysql --password S3CR3T -u bob",
    "tool --api-key=S3CR3T",
    "[client]\npassword = S3CR3T\n",
    "Server=x;Database=y;Pwd=S3CR3T;",
    "wrong password: S3CR3T",
    "invalid token: S3CR3T0123",
    /* several lines */
    "password=\"S3CR3T\nS3CR3T\" user=bob",
    "password = \"\"\"\nS3CR3T \"quoted\"\nS3CR3T\n\"\"\"\nuser = 'bob'",
    "password = '''\nS3CR3T\n'''",
    "{\"key\": 1, \"private_key\": \"S3CR3T\nS3CR3T\"}",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nS3CR3T\nS3CR3T\n-----END OPENSSH PRIVATE KEY-----",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nS3CR3T\n-----END PGP PRIVATE KEY BLOCK-----",
    "\"-----BEGIN RSA PRIVATE KEY-----\\nS3CR3T\\n-----END RSA PRIVATE KEY-----\\n\"",
    /* by their form */
    ("token is hf_" B64),
    "with SG.S3CR3TS3CR3TS3CR3TS3.S3CR3TS3CR3TS3CR3TS3CR3TS3CR3TS3CR3TS3C",
    "dckr_pat_S3CR3TS3CR3TS3CR3TS3CR3T",
    "twilio SKS3CR3T0123456789abcdef0123456789",
    "azure abc8Q~S3CR3TS3CR3TS3CR3TS3CR3TS3CR3TS3CR",
    "ghp_S3CR3TS3CR3TS3CR3TS3CR3TS3CR3TS3CR3T",
    "xoxb-1234567890-S3CR3T",
};

static const char *const prose[] = {
    "unexpected token: 'end'",
    "Unexpected token: }",
    "unexpected token: end of file",
    "Unexpected token '<', \"<!DOCTYPE \"... is not valid JSON",
    "syntax error, unexpected token: IDENTIFIER",
    "syntax error, unexpected token \"}\", expecting end of file",
    "invalid token: foo",
    "invalid token: 'foo'",
    "expected token: ')' got 'x'",
    "bad token: <eof>",
    "illegal token: @",
    "near token: end",
    "token: unexpected end of input",
    "Error: missing token: ;",
    "jwt: signature is invalid",
    "invalid jwt: malformed",
    "wrong password: must have 8 letters",
    "invalid password: must contain a digit",
    "password: must be at least 8 characters",
    "Password: can't be blank",
    "password: is too short (minimum is 8 characters)",
    "password: This field is required.",
    "password: Expected string, received number",
    "Password: required",
    "missing secret: check vault",
    "no such cookie: session",
    "missing password: set it in the settings",
    "no credentials: log in first",
    "Invalid credentials: user bob was not found",
    "unknown secret: vault says nothing",
    "password_file, token_type and max_tokens: 4096",
    "tokenizer: ready; secretary=bob; compass=north",
    "basic understanding of the auth: failed",
    "auth: required",
    "sig: none",
    "SK is the start of a line, SG.is too, hf_short",
    "the password is too long",
    "attempt to index a nil value (field 'token')",
    "undefined local variable or method `token' for main:Object",
    "Cannot read properties of undefined (reading 'password')",
    "KeyError: 'password'",
    "it's 'http://host/a' or \"http://host:80\" and bob's",
    "{\"u\":\"http://h:80\",\"m\":\"a@b\"}",
    "cannot find symbol: class Token",
};

TEST(test_of_secrets_nothing_is_left)
{
    int bad = 0;

    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++) {
        const char *left = redacted(secrets[i], STACKSPLICE_TEXT_MESSAGE);

        if (strstr(left, "R3T")) {
            print_error("%s\n    is shown as %s\n", secrets[i], left);
            bad++;
        }
        assert_non_null(strstr(left, "[redacted: "));
    }
    assert_int_equal(bad, 0);
}

TEST(test_prose_is_left_as_it_is)
{
    int bad = 0;

    for (size_t i = 0; i < sizeof prose / sizeof *prose; i++) {
        const char *left = redacted(prose[i], STACKSPLICE_TEXT_MESSAGE);

        if (strcmp(left, prose[i]) != 0) {
            print_error("%s\n    is shown as %s\n", prose[i], left);
            bad++;
        }
    }
    assert_int_equal(bad, 0);
}

TEST(test_what_stands_beside_a_secret_is_left)
{
    static const char *const rows[][2] = {
        {"password=\"a\nb\" user=bob", "password=\"[redacted: password]\" user=bob"},
        {"password: |\n  a\n  b\nuser: bob", "password: |\n  [redacted: password]\nuser: bob"},
        {"Authorization: Digest a=\"b\",\r\n c=\"d\"\r\nHost: x",
         "Authorization: Digest [redacted: credentials]\r\nHost: x"},
        {"['Cookie: a=\"1\"', 'Host: x']", "['Cookie: [redacted: cookie]', 'Host: x']"},
        {"DB_PASSWORD=a;b DB_HOST=x", "DB_PASSWORD=[redacted: password] DB_HOST=x"},
        {"x password='unclosed\nnext line", "x password='[redacted: password]\nnext line"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(redacted(rows[i][0], STACKSPLICE_TEXT_MESSAGE), rows[i][1]);
}

TEST(test_prose_in_literals_of_source)
{
    static const char *const lines[] = {
        "raise ValueError(\"unexpected token: 'end'\")",
        "error('wrong password: must have 8 letters')",
        "token: Token = read()",
    };

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_string_equal(redacted(lines[i], STACKSPLICE_TEXT_SOURCE), lines[i]);
}
