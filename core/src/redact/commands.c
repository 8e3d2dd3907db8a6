/* Secrets among the options of well-known commands: curl -u name:password, mysql -pWORD. */
#include "redact/scan.h"

typedef enum ss_argument {
    WHOLE,     /* the next argument */
    GLUED,     /* the rest of this one */
    WITH_NAME, /* the next one, behind a colon or '%' */
} ss_argument;

typedef struct ss_command {
    const char *name, *option;
    ss_argument argument;
} ss_command;

static const ss_command commands[] = {
    {"curl", "-u", WITH_NAME},      {"curl", "--user", WITH_NAME},
    {"curl", "-U", WITH_NAME},      {"curl", "--proxy-user", WITH_NAME},
    {"mysql", "-p", GLUED},         {"mysqldump", "-p", GLUED},
    {"mysqladmin", "-p", GLUED},    {"mysqlimport", "-p", GLUED},
    {"mariadb", "-p", GLUED},       {"mariadb-dump", "-p", GLUED},
    {"sshpass", "-p", WHOLE},       {"sshpass", "-p", GLUED},
    {"login", "-p", WHOLE},         {"redis-cli", "-a", WHOLE},
    {"ldapsearch", "-w", WHOLE},    {"ldapmodify", "-w", WHOLE},
    {"mongo", "-p", WHOLE},         {"mongosh", "-p", WHOLE},
    {"mongodump", "-p", WHOLE},     {"mongorestore", "-p", WHOLE},
    {"rabbitmqadmin", "-p", WHOLE}, {"sqlcmd", "-P", WHOLE},
    {"smbclient", "-U", WITH_NAME}, {"zip", "-P", WHOLE},
    {"unzip", "-P", WHOLE},         {"7z", "-p", GLUED},
    {"openssl", "-k", WHOLE},       {"ipmitool", "-P", WHOLE},
};

static bool is_name_at(const ss_scan *s, size_t at, const char *name)
{
    return begins_with(s, at, name) && !ss_is_of_name(ss_scan_at(s, at + strlen(name)));
}

void ss_note_command(ss_scan *s, size_t at)
{
    uint32_t first = ss_scan_at(s, at);

    if (!ss_is_any(first, "cmslruoiz7")) /* with which a command begins */
        return;
    for (size_t i = 0; i < SS_COUNT_OF(commands); i++) {
        if ((unsigned char)*commands[i].name == first && is_name_at(s, at, commands[i].name)) {
            s->command = commands[i].name;
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

    if (command->argument != GLUED) {
        size_t after = argument_at(s, begin);

        if (after == begin)
            return false;
        begin = after;
    }
    end = argument_end(s, begin);
    if (command->argument == WITH_NAME) {
        while (begin < end && !ss_is_any(ss_scan_at(s, begin), ":%"))
            begin++;
        begin++;
    }
    *secret = (ss_secret){begin, end, "password", s->in_quote};
    return begin < end && !ss_is_any(ss_scan_at(s, begin), "-$<{%[") &&
           !is_word_of(s, begin, end, "ssh https PASSWORD PASS TOKEN password");
}

bool ss_scan_option(const ss_scan *s, size_t at, ss_secret *secret)
{
    if (s->is_source && !s->in_quote)
        return false;
    for (size_t i = 0; i < SS_COUNT_OF(commands); i++) {
        const ss_command *command = &commands[i];
        bool is_whole = command->argument != GLUED;

        if (!strcmp(command->name, s->command) &&
            (is_whole ? is_name_at(s, at, command->option) : begins_with(s, at, command->option)) &&
            read_argument(s, at, command, secret))
            return true;
    }
    return false;
}
