/*
 * What the rules take for secrets, and what they leave alone.  In texts as programs write them each
 * secret ends in the letters R3T; messages of parsers and validators are left as they are.
 */
#include <stacksplice/redact.h>
#include "support.h"
#include "kept_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void assert_redacted(const char *text, stacksplice_text_kind kind, const char *want)
{
    written out = {"", 0}, again = {"", 0};

    assert_int_equal(stacksplice_redact(text, strlen(text), kind, keep, &out), S_OK);
    assert_string_equal(out.text, want);
    assert_int_equal(stacksplice_redact(out.text, out.length, kind, keep, &again), S_OK);
    assert_string_equal(again.text, want); /* what was redacted stays as it is */
}

typedef struct row {
    const char *text, *want; /* WANT NULL: nothing is removed */
} row;

static void assert_rows(const row *rows, size_t count, stacksplice_text_kind kind)
{
    for (size_t i = 0; i < count; i++)
        assert_redacted(rows[i].text, kind, rows[i].want ? rows[i].want : rows[i].text);
}

#define ASSERT_ROWS(rows, kind) assert_rows(rows, sizeof(rows) / sizeof *(rows), kind)

#define P "[redacted: password]"
#define T "[redacted: token]"
#define K "[redacted: key]"
#define C "[redacted: credentials]"
#define S "[redacted: secret]"

static const row named[] = {
    {"password=hunter2", "password=" P},
    {"Password: hunter2, user: bob", "Password: " P ", user: bob"},
    {"DB_PASSWORD=hunter2 DB_HOST=x", "DB_PASSWORD=" P " DB_HOST=x"},
    {"dbPass=hunter2;Server=x", "dbPass=" P ";Server=x"},
    {"PWD=hunter2", "PWD=" P},
    {"compass=north bypass=1 passes=3 password_file", NULL},
    {"{'password': 'hunter2', 'n': 1}", "{'password': '" P "', 'n': 1}"},
    {"{\"api_key\": \"a b\\\"c\", \"n\": 1}", "{\"api_key\": \"" K "\", \"n\": 1}"},
    {"{\\\"token\\\":\\\"abc\\\",\\\"n\\\":1}", "{\\\"token\\\":\\\"" T "\\\",\\\"n\\\":1}"},
    {"password=b'hunter2' x", "password=b'" P "' x"},
    {"secret => 'x1'", "secret => '" S "'"},
    {"t[\"password\"] = \"hunter2\"", "t[\"password\"] = \"" P "\""},
    {"('password', 'hunter2')", "('password', '" P "')"},
    {"passwords: ['a', 'b'] and more", "passwords: " P " and more"},
    {"password hunter2", NULL},
    {"wrong password 'hunter2' for bob", "wrong password '" P "' for bob"},
    {"run --password hunter2 --verbose", "run --password " P " --verbose"},
    {"run --token=abc", "run --token=" T},
    {"Unexpected token '<' in JSON", NULL},
    {"max_tokens: 4096, tokens=7", NULL},
    {"Authorization: Bearer abc def\nHost: x", "Authorization: Bearer " C "\nHost: x"},
    {"Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic " C},
    {"{'Authorization': 'Bearer abc'}", "{'Authorization': '" C "'}"},
    {"Set-Cookie: sid=1; Path=/", "Set-Cookie: [redacted: cookie]"},
    {"Bearer abcdefghijkl0", "Bearer " T},
    {"the bearer of news", NULL},
    {"https://h/p?access_token=abc&x=1", "https://h/p?access_token=" T "&x=1"},
    {"password=None, token=nil, secret=null, api_key=''", NULL},
    {"password: True token: undefined secret: ****", NULL},
    {"SecretToken('abc')", "SecretToken('" T "')"},
    {"password == 'hunter2'", "password == '" P "'"},
    {"password='unclosed\nnext line", "password='" P "\nnext line"},
    {"password:\nnext line", NULL},
    {"password:\n  x1y\nuser: b", NULL},
    {"password:\n  x1y2\nuser: b", "password:\n  " P "\nuser: b"},
    {"token::type", NULL},
    {"X-Amz-Signature=0f&b=1", "X-Amz-Signature=" K "&b=1"},
    {"/srv/secret:1: wrong\n\ttoken:12: in function <token:9>", NULL},
    {"user/password:1234 pin/token:12345678:", "user/password:" P " pin/token:" T},
    {" token:12: x", " token:" T " x"},
    {"=:\"'([{", NULL},
    {"password=", NULL},
    {"password=\"a\nb\" user=bob", "password=\"" P "\" user=bob"},
    {"password: |\n  a\n  b\nuser: bob", "password: |\n  " P "\nuser: bob"},
    {"Authorization: Digest a=\"b\",\r\n c=\"d\"\r\nHost: x",
     "Authorization: Digest " C "\r\nHost: x"},
    {"['Cookie: a=\"1\"', 'Host: x']", "['Cookie: [redacted: cookie]', 'Host: x']"},
    {"DB_PASSWORD=a;b DB_HOST=x", "DB_PASSWORD=" P " DB_HOST=x"},
    {"x password='unclosed\nnext line", "x password='" P "\nnext line"},
    {"invalid api key: x1, 'api key': 'x1'", "invalid api key: " K ", 'api key': '" K "'"},
    {"password: str = 'x1'", "password: str = '" P "'"},
    {"(name, password) VALUES ('bob', 'x1')", NULL},
    {"INSERT INTO u (name, password) VALUES ('bob', 'x1')",
     "INSERT INTO u (name, password) VALUES [redacted: values]"},
    {"[SQL: INSERT INTO u (n, token) VALUES (?, ?)]\n[parameters: ('bob', 'x1')]",
     "[SQL: INSERT INTO u (n, token) VALUES (?, ?)]\n[parameters: [redacted: values]]"},
    {"smtp.login('bob', 'x1') login('bob')", "smtp.login('" C "') login('bob')"},
    {"bob:x1@tcp(db:3306)/shop", C "@tcp(db:3306)/shop"},
    {"'cookie': ['unknown field'], 'password': 'x1'",
     "'cookie': ['unknown field'], 'password': '" P "'"},
};

#define SIXTY "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefgh"

static const row formed[] = {
    {"id AKIAIOSFODNN7EXAMPLE.", "id [redacted: AWS key]."},
    {"xAKIAIOSFODNN7EXAMPLE AKIASHORT", NULL},
    {"ghp_0123456789abcdefghijABCDEFGHIJ012345", "[redacted: GitHub token]"},
    {"-ghp_0123456789abcdefghijABCDEFGHIJ012345-", "-[redacted: GitHub token]-"},
    {"at xoxb-1234567890-abcdef ok", "at [redacted: Slack token] ok"},
    {"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl!", "[redacted: JWT]!"},
    {"eyJhbGciOiJIUzI1NiJ9 alone", NULL},
    {"abcdefghijklmn.atlasv1." SIXTY " x", "[redacted: Terraform token] x"},
    {"abcdefghijklmn.module1." SIXTY " x", NULL},
    {"a -----BEGIN RSA PRIVATE KEY-----\nMII\nabc\n-----END RSA PRIVATE KEY----- z",
     "a [redacted: private key] z"},
    {"-----BEGIN PRIVATE KEY-----\nMII", "[redacted: private key]"},
    {"-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----", NULL},
    {"postgres://bob:p@ss@db/x", "postgres://" C "@db/x"},
    {"https://a1b2c3d4e5f6@host/x?y=a@b", "https://" C "@host/x?y=a@b"},
    {"https://abc@host/x?y=a@b http://name@host/", NULL},
    {"http://host/a@b ssh://git@host/x bob@example.org", NULL},
    {"://@ a://", NULL},
};

static const row source[] = {
    {"login(password=\"hunter2\")", "login(password=\"" P "\")"},
    {"password = read_password()", NULL},
    {"if password == expected:", NULL},
    {"password: str = \"hunter2\",", "password: str = \"" P "\","},
    {"def login(user, password: str, token: Token = None):", NULL},
    {"local password = [[hunter2]]", "local password = " P},
    {"connect(\"host=x password=hunter2\")", "connect(\"host=x password=" P "\")"},
    {"name = input(\"Password: \")", NULL},
    {"return f\"token={token}\"", NULL},
    {"#define PASSWORD \"hunter2\"", "#define PASSWORD \"" P "\""},
    {"pin_secret = 1234", "pin_secret = " S},
    {"secrets = [\"a\", b]", "secrets = " S},
    {"key = os.environ[\"API_KEY\"]", NULL},
    {"a = \"it's\"; token = make(); b = 'x token=abc'",
     "a = \"it's\"; token = make(); b = 'x token=" T "'"},
    {"raise ValueError(\"unexpected token: 'end'\")", NULL},
    {"error('wrong password: must have 8 letters')", NULL},
    {"token: Token = read()", NULL},
    {"use({\"user\": \"bob\", \"password\": \"hunter2\"})",
     "use({\"user\": \"bob\", \"password\": \"" P "\"})"},
    {"cfg['password'] = 'hunter2'; use(cfg['x'])", "cfg['password'] = '" P "'; use(cfg['x'])"},
    {"d = {\"Authorization\": \"Bearer abc\"}", "d = {\"Authorization\": \"" C "\"}"},
    {"d = {'Authorization': f'Bearer {token}', 'token': tok}", NULL},
    {"h[\"Authorization\"] = \"Bearer \" + token", NULL},
    {"password = 'a' 'b'; token = \"a\" + \"b\"", "password = '" P "'; token = \"" T "\""},
    {"local token = \"a\" .. \"b\"", "local token = \"" T "\""},
    {"f(secret=SecretStr('x1'), n=1)", "f(secret=" S ", n=1)"},
    {"fields = [\"password\", \"email\", \"token\"]", NULL},
    {"def f(token: \"Token\" = None):", NULL},
    {"local token <const> = 'x1'", "local token <const> = '" T "'"},
    {"char api_key[] = \"x1\"; cookies['sid'] = 'x1'",
     "char api_key[] = \"" K "\"; cookies['sid'] = '[redacted: cookie]'"},
    {"{\"password\", \"x1\"}, f(a, \"password\", \"x1\")",
     "{\"password\", \"" P "\"}, f(a, \"password\", \"x1\")"},
    {"strcpy(password, \"x1\"); setattr(cfg, 'token', 'x1')",
     "strcpy(password, \"" P "\"); setattr(cfg, 'token', '" T "')"},
    {"config(\"SECRET_KEY\", default=\"x1\")", "config(\"SECRET_KEY\", default=\"" K "\")"},
    {"password = os.getenv('X') or 'x1'", "password = os.getenv('X') or '" P "'"},
    {"token = a if b else 'x1'", "token = a if b else '" T "'"},
    {"user, password = 'bob', 'x1'", "user, password = '[redacted: values]'"},
    {"x = f(user, password=p, z='a')", NULL},
    {"# we pass `str` and a token `x`", NULL},
    {"set_password('svc', 'bob', 'x1')", "set_password('" P "')"},
    {"password = (\n    'x1'\n    'x2'\n)", "password = " P},
    {"password = 'x1' \\\n    'x2'", "password = '" P "'"},
    {"password = 'x1' + \\\n    'x2'", "password = '" P "'"},
    {"token = a and 'x1' or b", "token = a and '" T "' or b"},
    {"token = b64decode('x1')", "token = " T},
    {"{ \"password\", \"x1\" },", "{ \"password\", \"" P "\" },"},
    {"curl_easy_setopt(c, CURLOPT_PASSWORD, \"x1\");",
     "curl_easy_setopt(c, CURLOPT_PASSWORD, \"" P "\");"},
    {"set_password(user, 'x1')", "set_password(user, '" P "')"},
    {"password = ('x1'\n    'x2')", "password = " P},
    {"password = \\\n    'x1'", "password = \\\n    '" P "'"},
};

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
    /* cookies */
    "Cookie: a=\"1\"; sid=S3CR3T",
    "Cookie: \"a\"; sid=S3CR3T",
    "Set-Cookie: sid=\"S3CR3T\"; Path=/; HttpOnly; tag=\"S3CR3T\"",
    "\"log\": \"Cookie: a=\\\"1\\\"; sid=S3CR3T\"",
    "cookie='sid=S3CR3T; a=\"1\"'",
    /* URLs */
    "http://user:S3C'R3T@host/",
    "cannot open 'http://user:S3CR3T\\'S3CR3T@host/'",
    "postgres://bob:S3CR3T\"S3CR3T@db/orders",
    "redis://:S3CR3T@cache:6379/0",
    "amqp+ssl://bob:S3CR3T@q/",
    "{\"u\":\"https://bob:S3CR3T@h\",\"m\":\"x\"}",
    "https://h/c?se=2026&sp=r&sig=S3CR3TS3CR3T%3D&x=1",
    "https://hooks.slack.com/services/T00000000/B00000000/S3CR3TS3CR3TS3CR3T",
    /* JSON, Python, Lua, C */
    "{\"password\": \"S3C\\\"R3T S3CR3T\"}",
    "{'db': {'passwd': 'S3CR3T', 'port': 1}}",
    "{password = \"S3CR3T\", user = \"bob\"}",
    "Config(password='S3CR3T', client_secret=\"S3CR3T\")",
    "requests.get(url, auth=('bob', 'S3CR3T'))",
    "{\"auths\": {\"https://index.docker.io/v1/\": {\"auth\": \"dXNlcjpTS3CR3T=\"}}}",
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=S3CR3T/S3CR3T==;EndpointSuffix=x",
    /* YAML, .env, ini, command lines */
    "user: bob\npassword: S3CR3T\nport: 1",
    "secret_key_base: S3CR3T",
    "production:\n  secret_key_base: S3CR3T\n",
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
    "[client]\npassword = S3CR3T\n",
    "Server=x;Database=y;Pwd=S3CR3T;",
    "wrong password: S3CR3T",
    "invalid token: S3CR3T0123",
    "Authorization: Bearer\r\n S3CR3T\r\nHost: x",
    "Authorization: Bearer a\n\tS3CR3T\nHost: x",
    "Set-Cookie: a=b;\n path=S3CR3T",
    "curl -u bob:S3CR3T http://h/",
    "mysql -u root -pS3CR3T shop",
    "login -token S3CR3T",
    "machine h login bob password S3CR3T",
    "<password>S3CR3T</password>",
    "<property name=\"db.password\" value=\"S3CR3T\"/>",
    "a%26password%3DS3CR3T%26b",
    "password\302\240= S3CR3T",
    "\"name\": \"DB_PASSWORD\", \"value\": \"S3CR3T\"",
    "- name: DB_PASSWORD\n  value: S3CR3T\n",
    "secret_key=SecretStr('S3CR3T')",
    "password=dict(old='S3CR3T')",
    "password=a&S3CR3T",
    "ssh://git:S3CR3T@h/",
    "postgres://bob:S3/CR3T@db/x",
    "postgres://bob:#S3CR3T@db/x",
    "postgres://bob:S3#CR3T@db/x",
    "postgres://bob:S3?CR3T@db/x",
    "postgres://bob:S3 CR3T@db/x",
    "('password', 'secret_S3CR3T')",
    "DBPASS=S3CR3T ftppwd=S3CR3T adminpw='S3CR3T'",
    "('spring.datasource.password', 'S3CR3T')",
    "USER bob\r\nPASS S3CR3T\r\n",
    "machine h login bob account x password S3CR3T",
    "<name>password</name><value>S3CR3T</value>",
    "{\"name\": \"TOKEN\", \"type\": \"env\", \"value\": \"S3CR3T\"}",
    "http.Header{\"Authorization\":[]string{\"Bearer S3CR3T\"}}",
    "curl -k --user bob:'S3CR3T' h",
    "api key 'S3CR3T' is invalid",
    "secret key given: S3CR3T",
    "[(b'authorization', b'Bearer S3CR3T'), (b'host', b'h')]",
    "headers={'authorization': ['Bearer S3CR3T']}",
    "{b'session_token': b'two S3CR3T'}",
    "run --access-token \"S3CR3T\"",
    "[password] => S3CR3T",
    "password[0]: S3CR3T",
    "api_keys=S3CR3T",
    "cookies={'sid': 'S3CR3T'}",
    "Ocp-Apim-Subscription-Key: S3CR3T",
    "Incorrect API key provided: S3CR3T.",
    "token 'S3CR3TS3CR3T' is expired",
    "IDENTIFIED BY 'S3CR3T'",
    "mysql -uroot -p'S3CR3T S3CR3T' shop",
    "curl -ubob:S3CR3T http://h/",
    "'mysql://root:a'S3CR3T@h/x'",
    "https:\\/\\/bob:S3CR3T@h\\/x",
    "<Password><![CDATA[S3CR3T]]></Password>",
    "password: !!str S3CR3T",
    "password: !vault |\n  S3CR3T\n",
    "password: &a S3CR3T",
    "$2b$12$S3CR3TS3CR3TS3CR3TS3CR3TS3CR3TS3CR3T",
    /* several lines */
    "password:\n  S3CR3T",
    "credentials:\n  user: bob\n  key: S3CR3T\nhost: h",
    "'password': 'S3CR3T'\n            'S3CR3T',\n 'n': 1",
    "{\"password\":\n  \"S3CR3T\"}",
    "passwords:\n  - S3CR3T\n  - S3CR3T\nuser: bob",
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
};

static const char *const prose[] = {
    "Unexpected token: }",
    "unexpected token: end of file",
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
    "{\"password\": [\"This field may not be blank.\"]}",
    "parse error: token: EOF",
    "token: expected ';' but found '}'",
    "token: 5 unexpected near '='",
    "cookie: rejected because of SameSite",
    "token = next(stream); password = read_password()",
    "credentials: include",
    "password=${DB_PASSWORD} token=%(token)s secret=[hidden]",
    "pass=3 fail=2",
    "dict_keys(['user', 'password', 'token'])",
    "http://name@host/",
    "{'password': ['required field']}",
    "{'password': ['min length is 8'], 'auth': {'token': ['must be of string type']}}",
    "{\"password\": [\"can't be blank\", \"is too short\"]}",
    "{\"token\": \"expired\"}",
    "password: ensure this value has at least 8 characters",
    "password: 8-64 characters",
    "wrong password: 3 attempts left",
    "near \"password\": syntax error",
    "yacc: syntax error at line 1, token=RPAREN",
    "Set-Cookie: rejected: invalid domain",
    "option --password needs a value",
    "usage: x --password PASSWORD [--token {1,2}] [--api-key API_KEY]",
    "  --password TEXT  [required]",
    "token: table: 0x5581",
    "token = tokens[i]; token = self.tokens[0]",
    "local token = lexer:next()",
    "token = token or x",
    "secret = await load()",
    "password: Optional[str] = None",
    "'properties': {'password': {'type': 'string', 'minLength': 8}}",
    "Error: secret \"db\" not found",
    "Bearer error=\"invalid_token\"",
    "password=...",
    "failed to read password: inappropriate ioctl for device",
    "hash password: bcrypt: password length exceeds 72 bytes",
    "fetching token: timeout",
    "login: bob login=bob",
    "TOKEN=${TOKEN:-} password=:pw",
    "const char *token = lexer->token;",
    "token == \"end\"",
    "signature=(x: int) -> str",
    "password: Passwords must be at least 12 characters",
    "passwd: password unchanged",
    "token=expired password=(not set) secret: [missing] token: (null)",
    "Cookie 'a' has no domain",
    "AssertionError: assert 'token' == 'name'",
    "assert token == expected",
    "login(password=form.password.data)",
    "  -p, --password=VALUE   password",
};

/* The formats that services publish: the prefix, and how many characters follow at the least. */
static const struct {
    const char *prefix;
    size_t fewest;
    const char *kind;
} published[] = {
    {"AKIA", 16, "AWS key"},
    {"ASIA", 16, "AWS key"},
    {"ABIA", 16, "AWS key"},
    {"ABSK", 80, "AWS key"},
    {"ACCA", 16, "AWS key"},
    {"AIza", 35, "Google key"},
    {"AKCp", 60, "Artifactory key"},
    {"ATATT3", 40, "Atlassian token"},
    {"ATCTT3", 40, "Atlassian token"},
    {"AGE-SECRET-KEY-1", 58, "age key"},
    {"API-", 26, "Octopus key"},
    {"EAA", 90, "Facebook token"},
    {"EZAK", 54, "EasyPost key"},
    {"EZTK", 54, "EasyPost key"},
    {"FLWSECK", 12, "Flutterwave key"},
    {"GOCSPX-", 20, "Google secret"},
    {"GR1348941", 20, "GitLab token"},
    {"HRKU-", 36, "Heroku key"},
    {"LTAI", 16, "Alibaba key"},
    {"NRAK-", 27, "New Relic key"},
    {"NRJS-", 19, "New Relic key"},
    {"NRII-", 30, "New Relic key"},
    {"PMAK-", 40, "Postman key"},
    {"SG.", 40, "SendGrid key"},
    {"SK", 32, "Twilio key"},
    {"dckr_pat_", 20, "Docker token"},
    {"dckr_oat_", 20, "Docker token"},
    {"dop_v1_", 40, "DigitalOcean token"},
    {"doo_v1_", 40, "DigitalOcean token"},
    {"dor_v1_", 40, "DigitalOcean token"},
    {"dapi", 32, "Databricks token"},
    {"dp.pt.", 40, "Doppler token"},
    {"dp.st.", 40, "Doppler token"},
    {"dp.ct.", 40, "Doppler token"},
    {"dt0c01.", 60, "Dynatrace token"},
    {"duffel_live_", 40, "Duffel token"},
    {"duffel_test_", 40, "Duffel token"},
    {"discord.com/api/webhooks/", 60, "Discord webhook"},
    {"discordapp.com/api/webhooks/", 60, "Discord webhook"},
    {"fo1_", 40, "Fly token"},
    {"fm2_", 80, "Fly token"},
    {"fm1x_", 80, "Fly token"},
    {"fio-u-", 60, "Frame.io token"},
    {"ghx_", 30, "GitHub token"},
    {"github_pat_", 22, "GitHub token"},
    {"glpat-", 20, "GitLab token"},
    {"glptt-", 20, "GitLab token"},
    {"gldt-", 20, "GitLab token"},
    {"glrt-", 20, "GitLab token"},
    {"glcbt-", 20, "GitLab token"},
    {"glft-", 20, "GitLab token"},
    {"glimt-", 20, "GitLab token"},
    {"glagent-", 40, "GitLab token"},
    {"gloas-", 40, "GitLab token"},
    {"glsoat-", 20, "GitLab token"},
    {"glffct-", 20, "GitLab token"},
    {"glsa_", 32, "Grafana token"},
    {"glc_", 32, "Grafana token"},
    {"gsk_", 40, "Groq key"},
    {"hf_", 30, "Hugging Face token"},
    {"hooks.slack.com/", 20, "Slack webhook"},
    {"hvs.", 24, "Vault token"},
    {"hvb.", 60, "Vault token"},
    {"key-", 32, "Mailgun key"},
    {"lin_api_", 32, "Linear key"},
    {"lin_oauth_", 32, "Linear key"},
    {"npm_", 36, "npm token"},
    {"ntn_", 40, "Notion token"},
    {"ops_eyJ", 80, "1Password token"},
    {"pypi-", 32, "PyPI token"},
    {"pul-", 40, "Pulumi token"},
    {"pplx-", 40, "Perplexity key"},
    {"pnu_", 36, "Prefect key"},
    {"pscale_tkn_", 32, "PlanetScale token"},
    {"pscale_pw_", 32, "PlanetScale password"},
    {"pscale_oauth_", 32, "PlanetScale token"},
    {"rk_live_", 16, "Stripe key"},
    {"rk_test_", 16, "Stripe key"},
    {"rubygems_", 40, "RubyGems key"},
    {"rdme_", 60, "ReadMe key"},
    {"r8_", 37, "Replicate token"},
    {"sk_live_", 16, "Stripe key"},
    {"sk_test_", 16, "Stripe key"},
    {"sk-", 32, "key"},
    {"shpxx_", 32, "Shopify token"},
    {"shippo_live_", 40, "Shippo token"},
    {"shippo_test_", 40, "Shippo token"},
    {"sntrys_", 40, "Sentry token"},
    {"sntryu_", 40, "Sentry token"},
    {"sq0atp-", 22, "Square token"},
    {"sq0csp-", 22, "Square secret"},
    {"sgp_", 40, "Sourcegraph token"},
    {"sha256~", 43, "OpenShift token"},
    {"v1.0-", 100, "Cloudflare key"},
    {"whsec_", 24, "Stripe secret"},
    {"webhook.office.com/webhookb2/", 60, "Teams webhook"},
    {"xoxx-", 10, "Slack token"},
    {"xoxe.xoxx-", 10, "Slack token"},
    {"xapp-", 10, "Slack token"},
    {"xkeysib-", 60, "Brevo key"},
    {"xsmtpsib-", 60, "Brevo key"},
    {"ya29.", 20, "Google token"},
    {"$argon2i", 30, "password hash"},
    {"ATBB", 28, "Bitbucket token"},
    {"amzn.mws.", 36, "AWS key"},
    {"pat", 78, "Airtable token"},
    {"vercel_", 24, "Vercel token"},
    {"CFPAT-", 43, "Contentful token"},
    {"CCIPAT_", 40, "CircleCI token"},
    {"bkua_", 40, "Buildkite token"},
    {"figd_", 40, "Figma token"},
    {"lsv2_pt_", 32, "LangSmith key"},
    {"nfp_", 36, "Netlify token"},
    {"nvapi-", 60, "NVIDIA key"},
    {"outlook.office.com/webhook/", 60, "Teams webhook"},
    {"phx_", 40, "PostHog key"},
    {"pat-na1-", 36, "HubSpot token"},
    {"rnd_", 28, "Render key"},
    {"sbp_", 40, "Supabase token"},
    {"secret_", 43, "Notion token"},
    {"sl.", 130, "Dropbox token"},
    {"tskey-", 20, "Tailscale key"},
    {"tvly-", 20, "Tavily key"},
    {"xai-", 60, "xAI key"},
};

static void assert_published(const char *prefix, size_t fewest, const char *kind)
{
    char body[192] = "", text[256], want[128];

    memset(body, '7', fewest);
    snprintf(text, sizeof text, "a %s%s.", prefix, body);
    snprintf(want, sizeof want, "a [redacted: %s]", kind);
    {
        written out = {"", 0};

        (void)stacksplice_redact(text, strlen(text), STACKSPLICE_TEXT_MESSAGE, keep, &out);
        if (strncmp(out.text, want, strlen(want)))
            fail_msg("%s is shown as %s", text, out.text);
    }
    body[fewest - 1] = '\0';
    snprintf(text, sizeof text, "a %s%s!", prefix, body);
    assert_redacted(text, STACKSPLICE_TEXT_MESSAGE, text);
}

TEST(test_published_formats)
{
    for (size_t i = 0; i < COUNT_OF(published); i++)
        assert_published(published[i].prefix, published[i].fewest, published[i].kind);
}

TEST(test_of_secrets_nothing_is_left)
{
    for (size_t i = 0; i < COUNT_OF(secrets); i++) {
        written left = {"", 0};

        (void)stacksplice_redact(secrets[i], strlen(secrets[i]), STACKSPLICE_TEXT_MESSAGE, keep,
                                 &left);
        if (strstr(left.text, "R3T") || !strstr(left.text, "[redacted: "))
            fail_msg("%s\n    is shown as %s\n", secrets[i], left.text);
    }
}

TEST(test_prose_is_left_as_it_is)
{
    for (size_t i = 0; i < COUNT_OF(prose); i++)
        assert_redacted(prose[i], STACKSPLICE_TEXT_MESSAGE, prose[i]);
}

TEST(test_values_with_telling_names)
{
    ASSERT_ROWS(named, STACKSPLICE_TEXT_MESSAGE);
}

TEST(test_secrets_known_by_their_form)
{
    ASSERT_ROWS(formed, STACKSPLICE_TEXT_MESSAGE);
    ASSERT_ROWS(formed, STACKSPLICE_TEXT_PATH);
}

TEST(test_literals_in_source)
{
    ASSERT_ROWS(source, STACKSPLICE_TEXT_SOURCE);
}

TEST(test_rules_are_chosen)
{
    const char *names[] = {"pin", "Iban-Number"};
    stacksplice_redaction redaction = {.size = sizeof redaction,
                                       .rules = STACKSPLICE_REDACT_EMAILS};
    const stacksplice_text_kind kind = STACKSPLICE_TEXT_MESSAGE;

    assert_redacted("bob@example.org", kind, "bob@example.org");
    assert_int_equal(stacksplice_set_redaction(&redaction), S_OK);
    assert_redacted("password=x to bob.b@example.org.", kind, "password=x to [redacted: e-mail].");
    assert_redacted("a@b x@ @y.z <a+b@c.de>", kind, "a@b x@ @y.z <[redacted: e-mail]>");
    redaction.rules = STACKSPLICE_REDACT_NAMED;
    redaction.names = names;
    redaction.name_count = 2;
    assert_int_equal(stacksplice_set_redaction(&redaction), S_OK);
    assert_redacted("user_pin=1234 spin=5 iban_number: DE1", kind,
                    "user_pin=" S " spin=5 iban_number: " S);
    assert_redacted("http://a:b@c", kind, "http://a:b@c");
    assert_string_equal(stacksplice_redact_name("userPin"), "secret");
    redaction.rules = 0;
    assert_int_equal(stacksplice_set_redaction(&redaction), S_OK);
    assert_redacted("password=x", kind, "password=x");
    assert_null(stacksplice_redact_name("password"));
    assert_int_equal(stacksplice_set_redaction(NULL), S_OK);
    assert_redacted("password=x", kind, "password=" P);
    assert_string_equal(stacksplice_redact_name("password"), "password");
    assert_null(stacksplice_redact_name("place"));
    assert_null(stacksplice_redact_name(NULL));
}

TEST(test_bad_settings_change_nothing)
{
    const char *bad[] = {"", "a b", "p\303\244ss",
                         "abcdefghijabcdefghijabcdefghijabcdefghijabcdefghij"};
    const char *many[STACKSPLICE_REDACT_NAMES_MAX + 1];
    stacksplice_redaction redaction = {.size = sizeof redaction, .rules = 16};
    written out = {"", 0};

    assert_int_equal(stacksplice_set_redaction(&redaction), E_INVALIDARG);
    redaction.rules = 0;
    for (size_t i = 0; i < 4; i++) {
        redaction.names = &bad[i];
        redaction.name_count = 1;
        assert_int_equal(stacksplice_set_redaction(&redaction), E_INVALIDARG);
    }
    for (size_t i = 0; i < STACKSPLICE_REDACT_NAMES_MAX + 1; i++)
        many[i] = "pin";
    redaction.names = many;
    redaction.name_count = STACKSPLICE_REDACT_NAMES_MAX + 1;
    assert_int_equal(stacksplice_set_redaction(&redaction), E_INVALIDARG);
    redaction.size--;
    assert_int_equal(stacksplice_set_redaction(&redaction), E_INVALIDARG);
    assert_redacted("password=x", STACKSPLICE_TEXT_MESSAGE, "password=" P);
    assert_int_equal(stacksplice_redact(NULL, 0, STACKSPLICE_TEXT_MESSAGE, keep, &out), E_POINTER);
    assert_int_equal(stacksplice_redact("", 0, STACKSPLICE_TEXT_MESSAGE, NULL, &out), E_POINTER);
    assert_int_equal(stacksplice_redact("", 0, 0, keep, &out), E_INVALIDARG);
    assert_int_equal(stacksplice_redact("", 0, 9, keep, &out), E_INVALIDARG);
}

static int shout(const char *text, size_t length, stacksplice_text_kind kind,
                 stacksplice_write_callback write, void *write_data, void *data)
{
    assert_int_equal(kind, STACKSPLICE_TEXT_LOCAL);
    if (*(const int *)data)
        return 1;
    return write("<", 1, write_data) || write(text, length, write_data) ||
           write(">", 1, write_data);
}

TEST(test_a_hook_has_the_last_word)
{
    int fails = 0;
    const stacksplice_redaction redaction = {.size = sizeof redaction,
                                             .rules = STACKSPLICE_REDACT_DEFAULT,
                                             .hook = shout,
                                             .hook_data = &fails};
    const char *text = "a password=x b";
    written out = {"", 0};

    assert_int_equal(stacksplice_set_redaction(&redaction), S_OK);
    assert_int_equal(stacksplice_redact(text, 14, STACKSPLICE_TEXT_LOCAL, keep, &out), S_OK);
    assert_string_equal(out.text, "<a password=" P " b>");
    out.length = 0;
    fails = 1;
    assert_int_equal(stacksplice_redact(text, 14, STACKSPLICE_TEXT_LOCAL, keep, &out), S_OK);
    assert_string_equal(out.text, "[redacted: hook failed]");
    out.length = 0;
    assert_int_equal(stacksplice_redact_by_rules(text, 14, STACKSPLICE_TEXT_LOCAL, keep, &out),
                     S_OK);
    assert_string_equal(out.text, "a password=" P " b");
    assert_int_equal(stacksplice_redact_by_rules(NULL, 0, STACKSPLICE_TEXT_LOCAL, keep, &out),
                     E_POINTER);
    assert_int_equal(stacksplice_set_redaction(NULL), S_OK);
}

/* Each piece is a beginning of something, so that scans that never end anything would add up. */
TEST(test_long_texts_of_beginnings)
{
    static const char *const pieces[] = {
        "password=\"",   "password=[",      "://a",        "eyJabcdefghijk.",
        "-----BEGIN ",   "token ",          "a@",          "\\\"secret\\\":",
        "auth=.",        "cookie: null ",   "token=null.", "Cookie: a,\n ",
        "password: |\n", "password: |\n  ", "\nA_TOKEN=",  "x://a'",
        "bad token: ",   "password='\n",    "abc8Q~",      "secret1_"};
    const size_t length = 1 << 20;
    char *text = malloc(length);

    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        size_t piece = strlen(pieces[i]);
        written out = {"", 0};

        for (size_t at = 0; at < length; at++)
            text[at] = pieces[i][at % piece];
        (void)stacksplice_redact(text, length, STACKSPLICE_TEXT_MESSAGE, keep, &out);
        out.length = 0;
        (void)stacksplice_redact(text, length, STACKSPLICE_TEXT_SOURCE, keep, &out);
    }
    free(text);
}
