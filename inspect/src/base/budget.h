/* How much is read in all: what is damaged can lead in circles, or from everywhere to everywhere.
 */
#ifndef SSI_BUDGET_H
#define SSI_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

/* From now on as much as at the start. */
void ssi_budget_renew(void);
/* Whether SIZE more bytes may be read, or have to wait for the next renewal. */
bool ssi_budget_takes(size_t size);
/* Whether something was refused since the last renewal. */
bool ssi_budget_is_spent(void);

#endif
