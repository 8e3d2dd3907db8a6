/* What capture and tests know of the token table beyond token.h. */
#ifndef SS_TOKEN_PRIVATE_H
#define SS_TOKEN_PRIVATE_H

#include "splice/token.h"

/* Tokens that exist from the start, by id. */
enum { SS_TOKEN_NO_MEMORY = 0, SS_TOKEN_TABLE_FULL, SS_TOKEN_REENTERED, SS_TOKEN_FIXED_COUNT };

/* Distinct contents that get a token of their own. */
#define SS_TOKEN_LIMIT (UINT32_C(1) << 20)

#define SS_TOKEN_FULL_REASON "too many different frames: the token table is full"

/* SS_TOKEN_LIMIT; tests make it smaller before the first token. */
extern uint32_t ss_token_limit;

uintptr_t ss_token_of(uint32_t id);

#endif
