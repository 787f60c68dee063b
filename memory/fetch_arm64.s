#include "textflag.h"

// func fetch(lock *sync.Mutex, tags *byte, tag int, words *int64, record, last int)
TEXT ·fetch(SB), NOSPLIT, $0-48
	MOVD words+24(FP), R0
	MOVD record+32(FP), R1
	ADD  R1, R0
	PRFM (R0), PLDL1KEEP
	MOVD last+40(FP), R1
	ADD  R1, R0
	PRFM (R0), PLDL1KEEP
	MOVD lock+0(FP), R0
	PRFM (R0), PSTL1KEEP
	MOVD tags+8(FP), R0
	MOVD tag+16(FP), R1
	ADD  R1, R0
	PRFM (R0), PLDL1KEEP
	RET
