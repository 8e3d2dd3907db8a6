/*
 * The third includes unixODBC, which defines them in another way (so that it cannot stand beside
 * PC/SC in one unit), after ours.
 */
#define STACKSPLICE_NO_WINRT
#include <stacksplice/stacksplice.h>
#include <stacksplice/source.h>
#ifdef WITH_ODBC
#include <sql.h>
#include <sqlext.h>
#endif

int odbc_slot_is_empty(void);

int odbc_slot_is_empty(void)
{
    IRestrictedErrorInfo *error = NULL;

#ifdef WITH_ODBC
    if (!SQL_SUCCEEDED(SQL_SUCCESS) || sizeof(SQLWCHAR) != 2)
        return 0;
#endif
    return stacksplice_peek_error(&error) == 1 && error == NULL;
}
