/* The memory of one thread's plans, which store.c and recording.c share. */
#ifndef SS_PLAN_ROOM_H
#define SS_PLAN_ROOM_H

#include "plan/plan.h"

typedef struct ss_plan_word {
    uintptr_t address, value;
} ss_plan_word;

typedef struct ss_plan_guard {
    int (*holds)(const uintptr_t *data);
    uintptr_t data[SS_PLAN_GUARD_DATA];
    uintptr_t at; /* how many words are compared before */
} ss_plan_guard;

enum {
    SS_PLAN_WORDS = 3072,
    SS_PLAN_GUARDS = 128,
    SS_PLAN_ELEMENTS = 2048,
    SS_PLAN_DISTINCT = 4096 /* entries to find a word that was recorded before */
};

struct ss_recording {
    ss_plan_case here;
    bool refused;
    uint32_t word_count, guard_count;
    ss_plan_word words[SS_PLAN_WORDS];
    ss_plan_guard guards[SS_PLAN_GUARDS];
    uintptr_t elements[SS_PLAN_ELEMENTS];
    uint16_t distinct[SS_PLAN_DISTINCT]; /* the number of a word by its address, from 1 on */
};

/* A plan in the ring: this header, then its words, guards and elements. */
typedef struct ss_stored_plan {
    ss_plan_case here;
    uint32_t word_count, guard_count, element_count;
} ss_stored_plan;

/*
 * Where a plan is.  The probe is a word of the stack that differed last time: where several plans
 * begin alike, it tells soonest which of them does not fit.
 */
typedef struct ss_plan_way {
    uintptr_t entry; /* of its case; 0: none */
    uint64_t place;  /* in the ring, counted from its first use on */
    ss_plan_word probe;
} ss_plan_way;

/*
 * A recording costs about as much as ten captures by it save.  A thread may go into debt for some;
 * each capture pays a little, and a hit more.  Where stacks hardly recur, or plans are soon void,
 * one capture in twice SS_PLAN_COST is recorded.
 */
enum { SS_PLAN_COST = 64, SS_PLAN_PAID_BY_HIT = 8 };

enum { SS_PLAN_RING = 256 << 10 };

struct ss_plan_room {
    ss_plan_world world; /* of all plans */
    uint64_t end;        /* of the newest plan, as a place */
    uint32_t next_victim;
    ss_plan_way sets[SS_PLAN_SETS][SS_PLAN_WAYS];
    ss_recording recording;
    _Alignas(64) unsigned char ring[SS_PLAN_RING];
};

/* Store what was recorded; the words are padded to a multiple of four. */
void ss_plan_store(struct ss_plan_room *room, const ss_recording *recording, uint32_t elements);

/* Forget all plans if the world is no longer the one in which they were made. */
void ss_plan_renew(struct ss_plan_room *room, const ss_plan_world *world);

#endif
