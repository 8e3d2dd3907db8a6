/* Secrets among the options of well-known commands: curl -u name:password, mysql -pWORD. */
#include "redact/scan.h"

typedef enum ss_argument {
    WHOLE,     /* the next argument */
    GLUED,     /* the rest of this one */
    WITH_NAME, /* the next one, behind a colon or '%' */
    GLUED_NAME /* the rest of this one, behind a colon or '%' */
} ss_argument;

typedef struct ss_command {
    const char *name, *option;
    ss_argument argument;
} ss_command;

/* By the first character of the command. */
#define COMMANDS(...)     \
    (const ss_command[])  \
    {                     \
        __VA_ARGS__,      \
        {                 \
            NULL, NULL, 0 \
        }                 \
    }
static const ss_command *const commands[128] = {
    ['7'] = COMMANDS({"7z", "-p", GLUED}),
    ['a'] = COMMANDS({"az", "-p", WHOLE}),
    ['b'] = COMMANDS({"bcp", "-P", WHOLE}),
    ['c'] = COMMANDS({"curl", "-u", WITH_NAME}, {"curl", "--user", WITH_NAME},
                     {"curl", "-U", WITH_NAME}, {"curl", "--proxy-user", WITH_NAME},
                     {"curl", "-u", GLUED_NAME}, {"curl", "--oauth2-bearer", WHOLE},
                     {"cqlsh", "-p", WHOLE}),
    ['h'] = COMMANDS({"http", "-a", WITH_NAME}),
    ['i'] = COMMANDS({"influx", "-password", WHOLE}, {"ipmitool", "-P", WHOLE}),
    ['l'] =
        COMMANDS({"lftp", "-u", WITH_NAME}, {"ldapadd", "-w", WHOLE}, {"ldapdelete", "-w", WHOLE},
                 {"ldappasswd", "-w", WHOLE}, {"ldappasswd", "-s", WHOLE}, {"login", "-p", WHOLE},
                 {"ldapsearch", "-w", WHOLE}, {"ldapmodify", "-w", WHOLE}),
    ['m'] =
        COMMANDS({"mongoimport", "-p", WHOLE}, {"mongoexport", "-p", WHOLE}, {"mycli", "-p", GLUED},
                 {"mysql", "-p", GLUED}, {"mysqldump", "-p", GLUED}, {"mysqladmin", "-p", GLUED},
                 {"mysqlimport", "-p", GLUED}, {"mariadb", "-p", GLUED},
                 {"mariadb-dump", "-p", GLUED}, {"mongo", "-p", WHOLE}, {"mongosh", "-p", WHOLE},
                 {"mongodump", "-p", WHOLE}, {"mongorestore", "-p", WHOLE}),
    ['o'] = COMMANDS({"openssl", "-k", WHOLE}),
    ['r'] = COMMANDS({"redis-cli", "--pass", WHOLE}, {"redis-cli", "-a", WHOLE},
                     {"rabbitmqadmin", "-p", WHOLE}),
    ['s'] =
        COMMANDS({"skopeo", "--creds", WITH_NAME}, {"sshpass", "-p", WHOLE},
                 {"sshpass", "-p", GLUED}, {"sqlcmd", "-P", WHOLE}, {"smbclient", "-U", WITH_NAME}),
    ['t'] = COMMANDS({"twine", "-p", WHOLE}),
    ['u'] = COMMANDS({"unzip", "-P", WHOLE}),
    ['w'] = COMMANDS({"wget", "--user", WITH_NAME}),
    ['x'] = COMMANDS({"xfreerdp", "/p:", GLUED}),
    ['z'] = COMMANDS({"zip", "-P", WHOLE}),
};

static bool is_name_at(const ss_scan *s, size_t at, const char *name)
{
    return begins_with(s, at, name) && !ss_is_of_name(ss_scan_at(s, at + strlen(name)));
}

static const ss_command *commands_of(uint32_t first)
{
    static const ss_command none = {NULL, NULL, WHOLE};

    return first < SS_COUNT_OF(commands) && commands[first] ? commands[first] : &none;
}

void ss_note_command(ss_scan *s, size_t at)
{
    uint32_t first = ss_scan_at(s, at), second = ss_scan_at(s, at + 1);

    if ((first | 32) == 'i' && ss_scan_has(s, at, "insert into "))
        s->is_insert = true;
    for (const ss_command *row = commands_of(first); row->name; row++) {
        if ((unsigned char)row->name[1] == second && is_name_at(s, at, row->name)) {
            s->command = row->name;
            return;
        }
    }
}

/* Past what is between an option and its argument: blanks, or the quotes and the comma of a list. */
static size_t argument_at(const ss_scan *s, size_t at)
{
    size_t begin = after_any(s, after_quote(s, at), ", \t=");

    return begin == at ? begin : after_quote(s, begin);
}

static size_t argument_end(const ss_scan *s, size_t begin)
{
    uint32_t quote = ss_scan_at(s, begin - 1);
    size_t end = begin;

    if (!ss_is_quote(quote) || (s->is_source && quote == s->in_quote && end == begin))
        quote = 0;
    while (!ends_line(s, end) &&
           (quote ? ss_scan_at(s, end) != quote
                  : ss_scan_at(s, end) > ' ' && !ss_is_quote(ss_scan_at(s, end))))
        end++;
    return end;
}

static bool read_argument(const ss_scan *s, size_t at, const ss_command *command, ss_secret *secret)
{
    size_t begin = at + strlen(command->option), end;

    if (command->argument == GLUED || command->argument == GLUED_NAME) {
        begin = after_quote(s, begin);
    } else {
        size_t after = argument_at(s, begin);

        if (after == begin)
            return false;
        begin = after;
    }
    end = argument_end(s, begin);
    if (command->argument == WITH_NAME || command->argument == GLUED_NAME) {
        while (begin < end && !ss_is_any(ss_scan_at(s, begin), ":%,"))
            begin++;
        if (begin++ >= end)
            return false;
        if (ss_is_quote(ss_scan_at(s, begin))) /* bob:'x' */
            end = argument_end(s, ++begin);
    }
    *secret = (ss_secret){begin, end, "password", s->in_quote};
    return begin < end && !ss_is_any(ss_scan_at(s, begin), "-$<{%[, ") &&
           !is_word_of(s, begin, end, "ssh https PASSWORD PASS TOKEN password");
}

bool ss_scan_option(const ss_scan *s, size_t at, ss_secret *secret)
{
    if (s->is_source && !s->in_quote)
        return false;
    for (const ss_command *command = commands_of((unsigned char)*s->command); command->name;
         command++) {
        bool is_whole = command->argument == WHOLE || command->argument == WITH_NAME;

        if (!strcmp(command->name, s->command) &&
            (is_whole ? is_name_at(s, at, command->option) : begins_with(s, at, command->option)) &&
            read_argument(s, at, command, secret))
            return true;
    }
    return false;
}
