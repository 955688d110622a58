/* Rows from the kernel into SQLite, without a detour through objects of Python.
 *
 *     us_append(insert, rows, out, epoch, node) -> how many
 *
 * is an SQL function. `rows` and `out` are what `us_dispatch` wrote, as blobs; `insert` is a
 * statement with a parameter for each column of `authority/journal/journal.py:Row`, and runs once a
 * row, in the transaction that the caller has open. An error of SQLite is the error of the call.
 *
 * SQLite hands an extension the table of its functions. Entries are only ever added at its end, so
 * those that we need are named here by their places; SQLite's own header may be missing where this
 * is built. `tests/native/test_append.py` compares them with it where it is not.
 */

#include "lease.h"

#include <stddef.h>
#include <string.h>

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
typedef struct sqlite3_value sqlite3_value;
typedef struct sqlite3_context sqlite3_context;

enum place {
    BIND_BLOB = 2,
    BIND_INT64 = 5,
    BIND_TEXT = 10,
    FINALIZE = 57,
    RESET = 77,
    RESULT_INT64 = 83,
    STEP = 94,
    VALUE_BLOB = 102,
    VALUE_BYTES = 103,
    VALUE_INT64 = 107,
    PREPARE_V2 = 116,
    RESULT_ERROR_CODE = 146,
    CONTEXT_DB_HANDLE = 149,
    CREATE_FUNCTION_V2 = 162
};

typedef void function_f(sqlite3_context *, int, sqlite3_value **);
typedef void free_f(void *);
typedef int bind_bytes_f(sqlite3_stmt *, int, const void *, int, free_f *);
typedef int bind_int64_f(sqlite3_stmt *, int, int64_t);
typedef int statement_f(sqlite3_stmt *);
typedef void result_int64_f(sqlite3_context *, int64_t);
typedef void result_error_f(sqlite3_context *, int);
typedef sqlite3 *database_f(sqlite3_context *);
typedef const void *value_blob_f(sqlite3_value *);
typedef int value_bytes_f(sqlite3_value *);
typedef int64_t value_int64_f(sqlite3_value *);
typedef int prepare_f(sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
typedef int create_f(sqlite3 *, const char *, int, int, void *, function_f *, us_entry, us_entry,
                     free_f *);

#define OK 0
#define MISMATCH 20 /* what was handed in does not fit together */
#define DONE 101
#define UTF8 1
#define ONLY_FROM_OUTSIDE 0x80000 /* no view or trigger of a database may call it */
#define CALL(name, type) ((type *)sqlite[name])

/* The one global of this library, and it never changes: without it a function that SQLite calls
 * could ask SQLite nothing, not even what it was registered with. */
static const us_entry *sqlite;

typedef struct slices {
    const uint8_t *out;
    uint64_t len;
} slices;

static void append(sqlite3_context *context, int count, sqlite3_value **values);
static int append_rows(sqlite3_stmt *insert, sqlite3_value **values);
static int append_row(sqlite3_stmt *insert, const us_row *row, const slices *from);
static int bind_slice(sqlite3_stmt *insert, int at, const slices *from, uint32_t begin,
                      uint32_t end);

int us_sqlite_init(void *database, char **message, const us_entry *table)
{
    (void)message;
    sqlite = table;
    return CALL(CREATE_FUNCTION_V2, create_f)((sqlite3 *)database, "us_append", 5,
                                              UTF8 | ONLY_FROM_OUTSIDE, NULL, append, NULL, NULL,
                                              NULL);
}

static void append(sqlite3_context *context, int count, sqlite3_value **values)
{
    sqlite3_stmt *insert = NULL;
    const char *text = CALL(VALUE_BLOB, value_blob_f)(values[0]);
    int rc =
        CALL(PREPARE_V2, prepare_f)(CALL(CONTEXT_DB_HANDLE, database_f)(context), text,
                                    CALL(VALUE_BYTES, value_bytes_f)(values[0]), &insert, NULL);

    (void)count;
    if (rc == OK)
        rc = append_rows(insert, values);
    (void)CALL(FINALIZE, statement_f)(insert);
    if (rc != OK)
        CALL(RESULT_ERROR_CODE, result_error_f)(context, rc);
    else
        CALL(RESULT_INT64, result_int64_f)(context, CALL(VALUE_BYTES, value_bytes_f)(values[1]) /
                                                        (int)sizeof(us_row));
}

static int append_rows(sqlite3_stmt *insert, sqlite3_value **values)
{
    const uint8_t *rows = CALL(VALUE_BLOB, value_blob_f)(values[1]);
    size_t size = (size_t)CALL(VALUE_BYTES, value_bytes_f)(values[1]);
    slices from = {CALL(VALUE_BLOB, value_blob_f)(values[2]),
                   (uint64_t)CALL(VALUE_BYTES, value_bytes_f)(values[2])};
    int rc = size % sizeof(us_row) == 0 ? OK : MISMATCH;

    if (rc == OK)
        rc = CALL(BIND_INT64, bind_int64_f)(insert, 2, CALL(VALUE_INT64, value_int64_f)(values[3]));
    if (rc == OK)
        rc = CALL(BIND_TEXT, bind_bytes_f)(insert, 5, CALL(VALUE_BLOB, value_blob_f)(values[4]),
                                           CALL(VALUE_BYTES, value_bytes_f)(values[4]), NULL);
    for (size_t at = 0; rc == OK && at < size; at += sizeof(us_row)) {
        us_row row; /* a blob may lie anywhere */
        memcpy(&row, rows + at, sizeof row);
        rc = append_row(insert, &row, &from);
    }
    return rc;
}

static int append_row(sqlite3_stmt *insert, const us_row *row, const slices *from)
{
    int rc = CALL(BIND_INT64, bind_int64_f)(insert, 1, row->seq);

    if (rc == OK)
        rc = CALL(BIND_INT64, bind_int64_f)(insert, 3, row->wall_ms);
    if (rc == OK)
        rc = CALL(BIND_INT64, bind_int64_f)(insert, 4, row->counter);
    if (rc == OK)
        rc = bind_slice(insert, 6, from, row->request_at, row->request_end);
    if (rc == OK)
        rc = bind_slice(insert, 7, from, row->response_at, row->response_end);
    if (rc == OK)
        rc = bind_slice(insert, 8, from, row->changes_at, row->response_at);
    if (rc == OK)
        rc = CALL(BIND_TEXT, bind_bytes_f)(insert, 9, row->digest, US_ROW_DIGEST_LEN, NULL);
    if (rc == OK)
        rc =
            CALL(BIND_TEXT, bind_bytes_f)(insert, 10, row->state_digest, US_STATE_DIGEST_LEN, NULL);
    if (rc != OK)
        return rc;
    rc = CALL(STEP, statement_f)(insert);
    int again = CALL(RESET, statement_f)(insert); /* says once more what went wrong, if it did */
    return rc == DONE ? again : again != OK ? again : rc;
}

static int bind_slice(sqlite3_stmt *insert, int at, const slices *from, uint32_t begin,
                      uint32_t end)
{
    if (begin > end || end > from->len)
        return MISMATCH;
    return CALL(BIND_BLOB, bind_bytes_f)(insert, at, from->out + begin, (int)(end - begin), NULL);
}
