#include "textflag.h"

// func fetch(lock *sync.Mutex, tags *byte, tag int, words *int64, record, last int)
TEXT ·fetch(SB), NOSPLIT, $0-48
	MOVQ words+24(FP), AX
	ADDQ record+32(FP), AX
	PREFETCHT0 (AX)
	ADDQ last+40(FP), AX
	PREFETCHT0 (AX)
	MOVQ lock+0(FP), AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08 // PREFETCHW (AX), which the assembler does not know; old processors ignore it
	MOVQ tags+8(FP), AX
	ADDQ tag+16(FP), AX
	PREFETCHT0 (AX)
	RET
