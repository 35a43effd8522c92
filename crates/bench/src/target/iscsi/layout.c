/* Refuses to compile against a libiscsi whose structures differ from those of library.rs. Contains no code. */
#include <stddef.h>
#include <stdint.h>
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>

#define IS(type, member, offset) _Static_assert(offsetof(struct type, member) == (offset), #type "." #member " lies elsewhere")

_Static_assert(sizeof(void *) == 8, "addresses have 64 bits");
IS(scsi_task, residual_status, 32);
IS(scsi_task, residual, 40);
IS(scsi_task, datain, 64);
IS(scsi_data, size, 0);
IS(scsi_data, data, 8);
IS(scsi_iovec, iov_base, 0);
IS(scsi_iovec, iov_len, 8);
_Static_assert(SCSI_RESIDUAL_UNDERFLOW == 1, "residual");
_Static_assert(SCSI_STATUS_CANCELLED == 0x0f000000, "cancelled");
_Static_assert(SCSI_STATUS_TIMEOUT == 0x0f000002, "timeout");
_Static_assert(SCSI_XFER_READ == 1 && SCSI_XFER_WRITE == 2, "directions");
_Static_assert(ISCSI_SESSION_NORMAL == 2 && ISCSI_HEADER_DIGEST_NONE == 0, "settings of a session");
