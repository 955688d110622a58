/* A main for fuzz targets where the compiler has no libFuzzer: fuzz_x SECONDS FILE...
 *
 * It runs the files as they are, then mutations of them from a fixed seed until the time is up.
 * An input that ends the program is printed in hex, which is enough to make a test of it.
 * Without US_FUZZ_MAIN nothing of it is built.
 */

#include "fuzz.h"

#ifdef US_FUZZ_MAIN

#include "../tests/check.h"

#include <sanitizer/common_interface_defs.h>
#include <string.h>
#include <time.h>

#define SEED_MAX 4096 /* bytes of one input */

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

static const seed *running; /* the input that is to blame, if the program ends now */

int main(int argc, char **argv)
{
    size_t count = argc > 2 ? (size_t)argc - 2 : 0;
    seed *corpus = calloc(count, sizeof *corpus);
    uint64_t state = 1, runs = 0;

    CHECK(count > 0 && corpus != NULL);
    CHECK(atexit(print_running) == 0);
    __sanitizer_set_death_callback(print_running);
    for (size_t i = 0; i < count; i++) {
        load(&corpus[i], argv[i + 2]);
        run(&corpus[i]);
    }
    time_t end = time(NULL) + strtol(argv[1], NULL, 10);
    while (time(NULL) < end) {
        for (int i = 0; i < 1000; i++, runs++) {
            seed input = corpus[below(&state, count)];
            mutate(&input, &corpus[below(&state, count)], &state);
            run(&input);
        }
    }
    printf("fuzz: %zu files and %llu mutations, all sound\n", count, (unsigned long long)runs);
    free(corpus);
    return 0;
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
