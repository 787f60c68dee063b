#include "textflag.h"

// func fetch(lock *sync.Mutex, table, tag, first, last uintptr)
TEXT ·fetch(SB), NOSPLIT, $0-40
	MOVQ first+24(FP), AX
	PREFETCHT0 (AX)
	MOVQ last+32(FP), AX
	PREFETCHT0 (AX)
	MOVQ lock+0(FP), AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08 // PREFETCHW (AX), which the assembler does not know; old processors ignore it
	MOVQ table+8(FP), AX
	PREFETCHT0 (AX)
	MOVQ tag+16(FP), AX
	PREFETCHT0 (AX)
	RET
