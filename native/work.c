/* How issues end: the mirror of `close` in `authority/law/issues/work.py`. */

#include "kernel.h"

enum us_reason us_close_issue(const us_kernel *k, const us_request *request, us_stamp stamp,
                              us_outcome *outcome)
{
    enum us_reason reason = us_touch(k, request, stamp, outcome);
    if (reason != US_REASON_NONE)
        return reason;
    outcome->move = US_MOVE_COMPLETE;
    return US_REASON_NONE;
}
