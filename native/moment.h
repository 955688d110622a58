/* RFC 3339 text and milliseconds since 1970, as `contracts/rfc3339.py` has them.
 *
 * The functions themselves are declared in lease.h: us_answer_text, us_record_text, us_parse_ms.
 *
 * Invariants:
 *   M1  The calendar is the proleptic Gregorian one; a day has 86,400 seconds.
 *   M2  us_parse_ms of a text that was written here gives the milliseconds back.
 */

#ifndef US_MOMENT_H
#define US_MOMENT_H

#include "lease.h"

/* Days since 1970-01-01, for the years 1 to 9999. */
int64_t us_days_from_date(int64_t year, int64_t month, int64_t day);

#endif
