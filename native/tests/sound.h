/* The invariants of a document that was read (json.h, J1 to J6), as a question. */

#ifndef US_TESTS_SOUND_H
#define US_TESTS_SOUND_H

#include "../json.h"

bool us_json_sound(const us_json *doc);

#endif
