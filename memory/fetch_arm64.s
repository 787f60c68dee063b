#include "textflag.h"

// func fetch(lock *sync.Mutex, table, tag, first, last uintptr)
TEXT ·fetch(SB), NOSPLIT, $0-40
	MOVD first+24(FP), R0
	PRFM (R0), PLDL1KEEP
	MOVD last+32(FP), R0
	PRFM (R0), PLDL1KEEP
	MOVD lock+0(FP), R0
	PRFM (R0), PSTL1KEEP
	MOVD table+8(FP), R0
	PRFM (R0), PLDL1KEEP
	MOVD tag+16(FP), R0
	PRFM (R0), PLDL1KEEP
	RET
