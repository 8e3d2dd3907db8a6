/*
 * The rules for secrets take time in proportion to a text's length, whatever it is made of: counted are
 * the characters that they read.  It has the rules' sources of its own, compiled so that they count.
 */
#include "redact/redact.h"
#include "instruments.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t ss_redact_steps;

/* Each is the beginning of something that a rule reads ahead for. */
static const char *const pieces[] = {
    "eyJ-",
    "eyJabcdefghijkl.",
    "sig=",
    "sk-",
    "AKIA",
    "ghp_0",
    "xoxb-",
    "SG.",
    "ya29.",
    "dapi0",
    "hooks.slack.com/",
    "abc8Q~",
    "abcdefghijklmn.atlasv1.",
    "MTk4NjIyNDgzNDcxOTI1MjQ4.",
    "12345678:AA",
    "-----BEGIN ",
    "-----BEGIN PRIVATE KEY",
    "a://",
    "a://b:",
    "x://a'",
    "://u:a/",
    "a@",
    "password: |\n ",
    "password:\n- ",
    "password='",
    "password=\\'",
    "password='\n",
    "'''",
    "password=\"\"\"",
    "\"password\":\n",
    "'a' ",
    "\"a\" + ",
    "password=('a' ",
    "token (",
    "secret=[",
    "secret=[\n",
    "key={",
    "[\n",
    "SecretStr('",
    "dict(",
    "a(",
    "x.",
    "pwd ",
    "bearer ",
    "basic ",
    "--token ",
    "-token ",
    "'",
    "\"",
    "`",
    "\\",
    " ",
    "\n",
    "\t",
    "\xC2\xA0",
    "AB_KEY=",
    "&b",
    "a,",
    ";a",
    "Authorization: a,\n ",
    "Cookie: a\n ",
    "cookie: x; ",
    "Cookie: a=b\r\n\t",
    "authorization: a ",
    "session=",
    "auth: ",
    "pass: str = ",
    "password: list[",
    "db_password_old_old_",
    "a-",
    "_",
    "api_key(",
    "'token', ",
    "(\"secret\", \"",
    "name: password\n",
    "\"name\": \"token\", ",
    "value",
    "<password>",
    "<password a",
    ":password>",
    "a:",
    "password%3D",
    "%26",
    "password=${",
    "{{",
    "%(",
    "<a ",
    "[hidden",
    "login a password ",
    "curl -u ",
    "curl ",
    "mysql -p",
    "-p",
    "-u a",
    "x=* ",
    "wrong token: ",
    "token: 1.",
    "password: !a:",
    "password: &a ",
    "password:\n ",
    "INSERT INTO a (password) VALUES (",
    "(password, ",
    "a:b@tcp(",
    "$6$abc",
    "token = a or '",
    "a, password = ",
    "api key: ",
    "key provided: ",
    "set_password('a', ",
    "strcpy(password, \"",
    "password[a",
    "'--token', default='",
    "{'type': ",
    "token: must ",
    "\"password\": [\"this ",
    "this field ",
    "bot1",
    "word ",
};

static int forget(const char *text, size_t length, void *data)
{
    (void)text;
    (void)length;
    (void)data;
    return 0;
}

static size_t steps(const char *text, size_t length, stacksplice_text_kind kind)
{
    ss_redact_steps = 0;
    (void)stacksplice_redact_by_rules(text, length, kind, forget, NULL);
    return ss_redact_steps;
}

enum { FEW = 1024, MANY = 4 * FEW, MOST_FOR_EACH = 200 };

/* The text of PIECE again and again: four times the length has at most a little more than four times the
   steps. */
static void check(const char *piece, stacksplice_text_kind kind)
{
    static char text[MANY];
    size_t length = strlen(piece), few, many;

    for (size_t i = 0; i < MANY; i++)
        text[i] = piece[i % length];
    many = steps(text, MANY, kind);
    if (many <= 16 * (size_t)MANY)
        return; /* so few that they cannot grow faster */
    few = steps(text, FEW, kind);
    if (many > 6 * few || many > MOST_FOR_EACH * (size_t)MANY)
        fail_msg("of \"%s\" as %d: %zu steps for %d characters, %zu for %d", piece, (int)kind, few,
                 FEW, many, MANY);
}

static void check_all(stacksplice_text_kind kind)
{
    const size_t count = sizeof pieces / sizeof *pieces;
    char pair[128];

    for (size_t i = 0; i < count; i++) {
        check(pieces[i], kind);
        /* One thread runs here: its sanitizer finds nothing in it, and takes minutes for all pairs. */
        for (size_t j = UNDER_TSAN ? i % 8 : 0; j < count; j += UNDER_TSAN ? 8 : 1) {
            snprintf(pair, sizeof pair, "%s%s", pieces[i], pieces[j]);
            check(pair, kind);
        }
    }
}

static void with_all_rules(stacksplice_text_kind kind)
{
    const stacksplice_redaction all = {
        .size = sizeof all, .rules = STACKSPLICE_REDACT_DEFAULT | STACKSPLICE_REDACT_EMAILS};

    assert_int_equal(stacksplice_set_redaction(&all), S_OK);
    check_all(kind);
    assert_int_equal(stacksplice_set_redaction(NULL), S_OK);
}

TEST(test_messages_grow_linearly)
{
    with_all_rules(STACKSPLICE_TEXT_MESSAGE);
}

TEST(test_source_grows_linearly)
{
    with_all_rules(STACKSPLICE_TEXT_SOURCE);
}

TEST(test_paths_and_values_grow_linearly)
{
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        check(pieces[i], STACKSPLICE_TEXT_PATH);
        check(pieces[i], STACKSPLICE_TEXT_LOCAL);
    }
}

TEST(test_the_count_counts)
{
    assert_true(steps("password=abc", 12, STACKSPLICE_TEXT_MESSAGE) >= 12);
}
