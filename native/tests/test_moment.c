/* Every day from 1970 to 9999, counted by hand, and the edges of the text. */

#include "../moment.h"
#include "check.h"

#include <string.h>

static void every_day_follows_the_one_before(void);
static void texts_end_where_they_should(void);
static void no_cut_of_a_text_is_read(void);

int main(void)
{
    every_day_follows_the_one_before();
    texts_end_where_they_should();
    no_cut_of_a_text_is_read();
    printf("sanitize: moment\n");
    return 0;
}

static void every_day_follows_the_one_before(void)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t days = 0;

    for (int year = 1970; year <= 9999; year++) {
        int leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        for (int month = 1; month <= 12; month++) {
            int length = lengths[month - 1] + (leap && month == 2);
            for (int day = 1; day <= length; day++, days++) {
                char text[US_MOMENT_TEXT_MAX], expected[64];
                CHECK(us_days_from_date(year, month, day) == days);
                if (day > 2 && day < length - 1)
                    continue; /* the text only at the ends of a month */
                int size = snprintf(expected, sizeof expected, "%04d-%02d-%02dT23:59:59.999Z", year,
                                    month, day);
                int64_t wall_ms = days * 86400000 + 86399999;
                CHECK(us_record_text(wall_ms, text) == size);
                CHECK(memcmp(text, expected, (size_t)size) == 0);
                CHECK(us_parse_ms(text, (uint64_t)size) == wall_ms); /* M2 */
            }
        }
    }
    CHECK(days * 86400000 - 1 == US_WALL_MS_MAX);
}

static void texts_end_where_they_should(void)
{
    char out[US_MOMENT_TEXT_MAX];

    CHECK(us_answer_text(0, out) == 25 && memcmp(out, "1970-01-01T00:00:00+00:00", 25) == 0);
    CHECK(us_answer_text(7, out) == 29 && memcmp(out, "1970-01-01T00:00:00.007+00:00", 29) == 0);
    CHECK(us_record_text(0, out) == 20);
    CHECK(us_answer_text(US_WALL_MS_MAX, out) == US_MOMENT_TEXT_MAX);
    CHECK(us_answer_text(US_WALL_MS_MAX + 1, out) == -US_MOMENT_INVALID);
    CHECK(us_answer_text(-1, out) == -US_MOMENT_INVALID);
    CHECK(us_record_text(INT64_MAX, out) == -US_MOMENT_INVALID);
    CHECK(us_record_text(INT64_MIN, out) == -US_MOMENT_INVALID);
}

/* On the heap, and without a NUL behind it, so that reading on is noticed. */
static void no_cut_of_a_text_is_read(void)
{
    const char *whole = "2026-02-03T04:05:06.007+00:00";

    for (size_t len = 0; len < strlen(whole); len++) {
        char *cut = malloc(len + (len == 0));
        CHECK(cut != NULL);
        memcpy(cut, whole, len);
        CHECK(us_parse_ms(cut, len) == -US_MOMENT_INVALID);
        free(cut);
    }
}
