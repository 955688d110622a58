/* RFC 3339 text and milliseconds since 1970, as `contracts/rfc3339.py` has them. */

#include "moment.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct date {
    uint32_t year;
    uint32_t month;
    uint32_t day;
} date;

typedef struct cursor {
    const char *at;
    const char *end;
    bool failed; /* once it has, everything read is 0 */
} cursor;

static size_t put_moment(int64_t wall_ms, char *out);
static void put_pair(char *out, uint32_t number);
static date date_from_days(uint32_t days);
static int64_t days_in_month(int64_t year, int64_t month);
static bool is_leap(int64_t year);
static int64_t take_digits(cursor *c, int digits);
static char take_one_of(cursor *c, const char *choices);
static int64_t take_fraction_ms(cursor *c);
static int64_t take_zone_ms(cursor *c);

#define SECOND_MS 1000
#define MINUTE_MS 60000
#define HOUR_MS 3600000
#define DAY_MS 86400000

/* ---- to text ----------------------------------------------------------------------------------
 */

int64_t us_answer_text(int64_t wall_ms, char *out)
{
    if (wall_ms < 0 || wall_ms > US_WALL_MS_MAX)
        return -US_MOMENT_INVALID;
    size_t len = put_moment(wall_ms, out);
    memcpy(out + len, "+00:00", 6);
    return (int64_t)len + 6;
}

int64_t us_record_text(int64_t wall_ms, char *out)
{
    if (wall_ms < 0 || wall_ms > US_WALL_MS_MAX)
        return -US_MOMENT_INVALID;
    size_t len = put_moment(wall_ms, out);
    out[len] = 'Z';
    return (int64_t)len + 1;
}

/* Up to the zone; milliseconds only where there are any. */
static size_t put_moment(int64_t wall_ms, char *out)
{
    date today = date_from_days((uint32_t)(wall_ms / DAY_MS));
    uint32_t rest_ms = (uint32_t)(wall_ms % DAY_MS);
    uint32_t seconds = rest_ms / SECOND_MS, fraction_ms = rest_ms % SECOND_MS;

    memcpy(out, "....-..-..T..:..:...", 20);
    put_pair(out, today.year / 100);
    put_pair(out + 2, today.year % 100);
    put_pair(out + 5, today.month);
    put_pair(out + 8, today.day);
    put_pair(out + 11, seconds / 3600);
    put_pair(out + 14, seconds / 60 % 60);
    put_pair(out + 17, seconds % 60);
    if (fraction_ms == 0)
        return 19;
    out[20] = (char)('0' + fraction_ms / 100);
    put_pair(out + 21, fraction_ms % 100);
    return 23;
}

static void put_pair(char *out, uint32_t number)
{
    static const char PAIRS[] = "00010203040506070809101112131415161718192021222324252627282930"
                                "31323334353637383940414243444546474849505152535455565758596061"
                                "62636465666768697071727374757677787980818283848586878889909192"
                                "93949596979899";
    memcpy(out, PAIRS + 2 * (size_t)number, 2);
}

/* ---- from text --------------------------------------------------------------------------------
 */

int64_t us_parse_ms(const char *text, uint64_t len)
{
    cursor c = {.at = text, .end = text + len};

    int64_t year = take_digits(&c, 4);
    take_one_of(&c, "-");
    int64_t month = take_digits(&c, 2);
    take_one_of(&c, "-");
    int64_t day = take_digits(&c, 2);
    take_one_of(&c, "Tt ");
    int64_t hour = take_digits(&c, 2);
    take_one_of(&c, ":");
    int64_t minute = take_digits(&c, 2);
    take_one_of(&c, ":");
    int64_t second = take_digits(&c, 2);
    int64_t fraction_ms = take_fraction_ms(&c);
    int64_t zone_ms = take_zone_ms(&c);

    if (c.failed || c.at != c.end)
        return -US_MOMENT_INVALID;
    if (year == 0 || month < 1 || month > 12 || day < 1 || day > days_in_month(year, month))
        return -US_MOMENT_INVALID;
    if (hour > 23 || minute > 59 || second > 59)
        return -US_MOMENT_INVALID;
    int64_t wall_ms = us_days_from_date(year, month, day) * DAY_MS + hour * HOUR_MS +
                      minute * MINUTE_MS + second * SECOND_MS + fraction_ms - zone_ms;
    if (wall_ms < 0 || wall_ms > US_WALL_MS_MAX)
        return -US_MOMENT_INVALID;
    return wall_ms;
}

static int64_t take_digits(cursor *c, int digits)
{
    int64_t number = 0;

    for (; digits > 0; digits--) {
        if (c->failed || c->at == c->end || *c->at < '0' || *c->at > '9') {
            c->failed = true;
            return 0;
        }
        number = number * 10 + (*c->at++ - '0');
    }
    return number;
}

static char take_one_of(cursor *c, const char *choices)
{
    if (c->failed || c->at == c->end || *c->at == 0 || strchr(choices, *c->at) == NULL) {
        c->failed = true;
        return 0;
    }
    return *c->at++;
}

/* Nothing, or a point and one to nine digits, of which the first three count. */
static int64_t take_fraction_ms(cursor *c)
{
    int64_t fraction_ms = 0;
    int digits = 0;

    if (c->failed || c->at == c->end || *c->at != '.')
        return 0;
    c->at++;
    for (; digits < 9 && c->at < c->end && *c->at >= '0' && *c->at <= '9'; digits++, c->at++) {
        if (digits < 3)
            fraction_ms = fraction_ms * 10 + (*c->at - '0');
    }
    if (digits == 0)
        c->failed = true;
    for (; digits < 3; digits++)
        fraction_ms *= 10;
    return fraction_ms;
}

static int64_t take_zone_ms(cursor *c)
{
    char sign = take_one_of(c, "Zz+-");

    if (sign == 'Z' || sign == 'z')
        return 0;
    int64_t hour = take_digits(c, 2);
    take_one_of(c, ":");
    int64_t minute = take_digits(c, 2);
    if (hour > 23 || minute > 59)
        c->failed = true;
    int64_t zone_ms = hour * HOUR_MS + minute * MINUTE_MS;
    return sign == '-' ? -zone_ms : zone_ms;
}

/* ---- the calendar -----------------------------------------------------------------------------
 */

/* Years are counted from March, so that the day of a leap year is the last one and the months
 * before a given one have (153 * m + 2) / 5 days. 719468 days lie between 0000-03-01 and 1970. */

int64_t us_days_from_date(int64_t year, int64_t month, int64_t day)
{
    int64_t from_march = month > 2 ? month - 3 : month + 9;
    int64_t y = month > 2 ? year : year - 1;
    int64_t day_of_year = (153 * from_march + 2) / 5 + day - 1;
    return 365 * y + y / 4 - y / 100 + y / 400 + day_of_year - 719468;
}

static date date_from_days(uint32_t days)
{
    uint32_t since = days + 719468;
    uint32_t era = since / 146097; /* 400 years */
    uint32_t day_of_era = since % 146097;
    uint32_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    uint32_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint32_t from_march = (5 * day_of_year + 2) / 153;
    uint32_t month = from_march < 10 ? from_march + 3 : from_march - 9;
    return (date){
        .year = era * 400 + year_of_era + (month <= 2),
        .month = month,
        .day = day_of_year - (153 * from_march + 2) / 5 + 1,
    };
}

static int64_t days_in_month(int64_t year, int64_t month)
{
    static const int8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && is_leap(year));
}

static bool is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}
