/* A main for fuzz targets where the compiler has no libFuzzer: fuzz_x SECONDS FILE...
 *
 * It runs the files as they are, then mutations of them from a fixed seed until the time is up. A
 * mutation that goes where none went before is kept, and mutated in turn; the compiler's
 * -fsanitize-coverage=trace-pc tells, and without it nothing is kept. An input that ends the
 * program is printed in hex, which is enough to make a test of it. Without US_FUZZ_MAIN nothing of
 * this is built.
 */

#include "fuzz.h"

#ifdef US_FUZZ_MAIN

#include "../tests/check.h"

#include <sanitizer/common_interface_defs.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#define SEED_MAX 4096  /* bytes of one input */
#define SEEDS_MAX 4096 /* inputs */
#define EDGES_MAX 65536

typedef struct seed {
    uint8_t data[SEED_MAX];
    size_t len;
} seed;

static void load(seed *input, const char *path);
static void run(const seed *input);
static void mutate(seed *input, const seed *other, uint64_t *state);
static void replace(seed *input, size_t at, size_t gone, const void *data, size_t len);
static size_t below(uint64_t *state, size_t bound);
static uint64_t draw(uint64_t *state);
static void print_running(void);

int main(int argc, char **argv);
void __sanitizer_cov_trace_pc(void);

static const seed *running;      /* the input that is to blame, if the program ends now */
static uint8_t edges[EDGES_MAX]; /* from one part of the program to the next, that were seen */
static uintptr_t last_part;
static bool went_further;

int main(int argc, char **argv)
{
    size_t files = argc > 2 ? (size_t)argc - 2 : 0, count = 0;
    seed *corpus = calloc(SEEDS_MAX, sizeof *corpus);
    uint64_t state = 1, runs = 0;

    CHECK(files > 0 && files <= SEEDS_MAX && corpus != NULL);
    CHECK(atexit(print_running) == 0);
    __sanitizer_set_death_callback(print_running);
    for (; count < files; count++) {
        load(&corpus[count], argv[count + 2]);
        run(&corpus[count]);
    }
    time_t end = time(NULL) + strtol(argv[1], NULL, 10);
    while (time(NULL) < end) {
        for (int i = 0; i < 100; i++, runs++) {
            seed input = corpus[below(&state, count)];
            mutate(&input, &corpus[below(&state, count)], &state);
            run(&input);
            if (went_further && count < SEEDS_MAX)
                corpus[count++] = input;
        }
    }
    printf("fuzz: %zu files and %llu mutations, of which %zu went further; all sound\n", files,
           (unsigned long long)runs, count - files);
    free(corpus);
    return 0;
}

/* Called wherever the program may have come from somewhere else. Parts are counted from main, so
 * that they are the same wherever the program was loaded. */
__attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc(void)
{
    uintptr_t part = (uintptr_t)__builtin_return_address(0) - (uintptr_t)main;
    uint8_t *edge = &edges[(last_part * 31 ^ part) % EDGES_MAX];

    went_further |= *edge == 0;
    *edge = 1;
    last_part = part;
}

static void load(seed *input, const char *path)
{
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    input->len = fread(input->data, 1, SEED_MAX, file);
    fclose(file);
}

static void run(const seed *input)
{
    running = input;
    last_part = 0;
    went_further = false;
    LLVMFuzzerTestOneInput(input->data, input->len);
    running = NULL;
}

static void print_running(void)
{
    if (running == NULL)
        return;
    fprintf(stderr, "fuzz: input in hex: ");
    for (size_t i = 0; i < running->len; i++)
        fprintf(stderr, "%02x", running->data[i]);
    fprintf(stderr, "\n");
    running = NULL;
}

/* ---- accidents --------------------------------------------------------------------------------
 */

static const char *const TOKENS[] = {
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u0",
    "\\u0061",
    "\\ud83d",
    "\\n",
    "-",
    "\\ude00",
    "0",
    "1e2",
    "1.0",
    "null",
    "true",
    " ",
    "\n",
    "\"a\":1",
    "\":",
    "9007199254740992",
    "\xff",
    "\xc3\xa9",
    "]]]]",
    "[[[[",
    "\x1f",
    "}}}",
    "{\"a\":",
    "\xed\xa0\x80",
    "2026-02-03T04:05:06Z",
    "{\"action\":\"issue.claim\",\"payload\":{",
    "\"issue.lease_renew\"",
    "\"issue.lease_release\"",
    "\"issue.close\"",
    "\"id\":\"a-1\",",
    "\"requestId\":\"r\",",
    "\"fence\":1,",
    "\"now\":1800000000009,",
    "\np110155\n",
    "\np211155\n",
    "\ns\n",
    "\ni\n",
    "\nx\xe0",
};

/* One to eight of them. */
static void mutate(seed *input, const seed *other, uint64_t *state)
{
    for (size_t left = 1 + below(state, 8); left > 0; left--) {
        size_t at = below(state, input->len + 1);
        size_t gone = below(state, 3) == 0 ? below(state, 9) : below(state, 2);
        const char *token = TOKENS[below(state, sizeof TOKENS / sizeof TOKENS[0])];
        uint8_t byte = (uint8_t)draw(state);
        size_t from = below(state, other->len + 1);

        switch (below(state, 4)) {
        case 0:
            replace(input, at, gone, &byte, 1);
            break;
        case 1:
            replace(input, at, gone, NULL, 0);
            break;
        case 2:
            replace(input, at, gone, other->data + from, below(state, other->len - from + 1));
            break;
        default:
            replace(input, at, gone, token, strlen(token));
            break;
        }
    }
}

static void replace(seed *input, size_t at, size_t gone, const void *data, size_t len)
{
    size_t rest = input->len - at;

    gone = gone < rest ? gone : rest;
    rest -= gone;
    if (at + len + rest > SEED_MAX)
        return;
    memmove(input->data + at + len, input->data + at + gone, rest);
    if (len != 0)
        memcpy(input->data + at, data, len);
    input->len = at + len + rest;
}

static size_t below(uint64_t *state, size_t bound)
{
    return (size_t)(draw(state) % bound);
}

/* A counter through a mixer: chance enough for accidents, and the same on every machine. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

#endif
