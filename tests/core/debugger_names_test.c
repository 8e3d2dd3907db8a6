/* Names of tokens for debuggers: the list that a debugger reads, and the ELF file in it. */
#include "failing_allocator.h"
#include "splice/pool.h"

#include <stacksplice/debugger.h>

#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "support.h"

#if UINTPTR_MAX > 0xffffffffu

/* As gdb's manual has them. */
struct jit_code_entry {
    struct jit_code_entry *next_entry, *prev_entry;
    const char *symfile_addr;
    uint64_t symfile_size;
};

extern struct jit_descriptor {
    uint32_t version, action_flag;
    struct jit_code_entry *relevant_entry, *first_entry;
} __jit_debug_descriptor;

static int set_up(void **state)
{
    (void)state;
    return memory_use();
}

static uintptr_t intern(const char *function, uint32_t line)
{
    const stacksplice_token_info info = {.size = sizeof info,
                                         .kind = STACKSPLICE_FRAME_SCRIPT,
                                         .trust = STACKSPLICE_TRUST_EXACT,
                                         .language = "lua",
                                         .function = function,
                                         .file = "a.lua",
                                         .line = line};
    uintptr_t token = 0;

    assert_int_equal(stacksplice_intern(&info, &token), S_OK);
    return token;
}

/* The contents of section NUMBER, which lies in the file. */
static const void *section(const struct jit_code_entry *entry, unsigned number, Elf64_Shdr *out)
{
    Elf64_Ehdr header;

    memcpy(&header, entry->symfile_addr, sizeof header);
    assert_memory_equal(header.e_ident, ELFMAG, SELFMAG);
    assert_true(number < header.e_shnum);
    assert_true(header.e_shoff + header.e_shnum * sizeof *out <= entry->symfile_size);
    memcpy(out, entry->symfile_addr + header.e_shoff + number * sizeof *out, sizeof *out);
    if (out->sh_type != SHT_NOBITS)
        assert_true(out->sh_offset + out->sh_size <= entry->symfile_size);
    return entry->symfile_addr + out->sh_offset;
}

/* The name of TOKEN in the one file of the list; NULL if it has none. */
static const char *name_of(uintptr_t token)
{
    const struct jit_code_entry *entry = __jit_debug_descriptor.first_entry;
    Elf64_Shdr text, table, strings;
    const Elf64_Sym *symbols;
    const char *names;

    assert_non_null(entry);
    assert_null(entry->next_entry);
    (void)section(entry, 1, &text);
    symbols = section(entry, 2, &table);
    names = section(entry, table.sh_link, &strings);
    for (size_t i = 1; i < table.sh_size / sizeof *symbols; i++) {
        assert_true(symbols[i].st_name < strings.sh_size);
        assert_in_range(symbols[i].st_value, text.sh_addr, text.sh_addr + text.sh_size - 1);
        if (symbols[i].st_value == token)
            return names + symbols[i].st_name;
    }
    return NULL;
}

TEST(test_nothing_is_named_until_a_host_asks)
{
    (void)intern("early", 1);
    assert_int_equal(__jit_debug_descriptor.version, 1);
    assert_null(__jit_debug_descriptor.first_entry);
}

TEST(test_the_newest_call_names_all)
{
    uintptr_t early = intern("early", 7), late;

    assert_int_equal(stacksplice_register_debugger_names(), S_OK);
    assert_string_equal(name_of(early), "early (a.lua:7)");
    assert_int_equal(__jit_debug_descriptor.action_flag, 1);
    late = intern("late", 8);
    assert_null(name_of(late));
    assert_int_equal(stacksplice_register_debugger_names(), S_OK);
    assert_ptr_equal(__jit_debug_descriptor.relevant_entry, __jit_debug_descriptor.first_entry);
    assert_string_equal(name_of(early), "early (a.lua:7)");
    assert_string_equal(name_of(late), "late (a.lua:8)");
    assert_string_equal(name_of(ss_token_of(SS_TOKEN_NO_MEMORY)),
                        "[gap: frames missing here: out of memory]");
}

TEST(test_a_long_name_is_cut)
{
    char function[2000];
    uintptr_t token;

    memset(function, 'x', sizeof function - 1);
    function[sizeof function - 1] = '\0';
    token = intern(function, 1);
    assert_int_equal(stacksplice_register_debugger_names(), S_OK);
    assert_in_range(strlen(name_of(token)), 100, 600);
}

TEST(test_without_memory_the_names_stay)
{
    uintptr_t token = intern("early", 7);
    long before;

    assert_int_equal(stacksplice_register_debugger_names(), S_OK);
    before = memory_live;
    memory_arm(1);
    assert_int_equal(stacksplice_register_debugger_names(), E_OUTOFMEMORY);
    memory_disarm();
    assert_string_equal(name_of(token), "early (a.lua:7)");
    assert_int_equal(stacksplice_register_debugger_names(), S_OK);
    assert_int_equal(memory_live, before); /* the file before is gone */
}

GROUP(set_up, NULL)

#else

TEST(test_no_names_where_pointers_have_32_bits)
{
    assert_int_equal(stacksplice_register_debugger_names(), E_NOTIMPL);
}

#endif
