/*
 * Plain C that knows no script language.  When it fails it originates an error with the reason and
 * returns the HRESULT.  The caller may be in any language.
 */
#include "host.h"

#include <stacksplice/script.h> /* stacksplice_originate */

#include <math.h>
#include <string.h>

/* ISO 4217: currencies and the digits after their point. */
static const struct {
    char code[4];
    int digits;
} currencies[] = {
    {"EUR", 2}, {"GBP", 2}, {"USD", 2}, {"CHF", 2}, {"SEK", 2}, {"DKK", 2}, {"NOK", 2},
    {"PLN", 2}, {"CZK", 2}, {"HUF", 2}, {"JPY", 0}, {"KWD", 3}, {"TRY", 2}, {"RON", 2},
};

/* Above this a double cannot hold every integer: 2 to the power of 53. */
static const double largest_exact = 9007199254740992.0;

int money_digits(const char *currency)
{
    for (size_t i = 0; i < sizeof currencies / sizeof *currencies; i++)
        if (strcmp(currencies[i].code, currency) == 0)
            return currencies[i].digits;
    return -1;
}

HRESULT round_money(double amount, const char *currency, int64_t *minor)
{
    int digits = money_digits(currency);
    double rounded;

    if (digits < 0) {
        HRESULT hr = HRESULT_FROM_WIN32(ERROR_NOT_FOUND);
        char message[80];
        int length =
            snprintf(message, sizeof message, "%.20s is no currency of ISO 4217", currency);

        stacksplice_originate(hr, message, (size_t)length, NULL, NULL);
        return hr;
    }
    rounded = nearbyint(amount * pow(10, digits)); /* half to even */
    if (!(fabs(rounded) <= largest_exact)) {
        HRESULT hr = HRESULT_FROM_WIN32(ERROR_ARITHMETIC_OVERFLOW);

        /* The Windows name works too.  It takes UTF-16, and 0 for "up to the NUL". */
        RoOriginateErrorW(hr, 0, (const WCHAR *)u"the amount is too large to be exact");
        return hr;
    }
    *minor = (int64_t)rounded;
    return S_OK;
}
