package memory

// remove deletes the record at offset, answering the bytes it took up.
// Offsets of others stay valid until the shard is compacted.
func (sh *shard) remove(offset int) (size int64) {
	r := sh.at(offset)
	sh.unlink(sh.place(offset, r.hash()))
	size = bucketSize(r.length())
	if n := r.ext(); n != 0 {
		size += sh.exts[n].size
		sh.exts[n] = ext{}
		sh.freeExts = append(sh.freeExts, n)
	}
	length := words(r.length())
	r[0], r[wordMore] = int64(length), -1
	sh.live--
	sh.waste += length
	return size
}

// place is where the index refers to an offset.
func (sh *shard) place(offset int, hash uint32) uint32 {
	mask := uint32(len(sh.index) - 1)
	at := hash & mask
	for int(sh.index[at]&offsetMask) != offset {
		at = (at + 1) & mask
	}
	return at
}

// unlink empties a place of the index and moves up what was pushed past it.
func (sh *shard) unlink(at uint32) {
	mask := uint32(len(sh.index) - 1)
	for next := (at + 1) & mask; ; next = (next + 1) & mask {
		word := sh.index[next]
		if word == 0 {
			break
		}
		home := sh.at(int(word&offsetMask)).hash() & mask
		if (next-home)&mask >= (next-at)&mask {
			sh.index[at] = word
			at = next
		}
	}
	sh.index[at] = 0
}

// compact moves the records together once a quarter of the slab is waste, and
// gives back what the index does not need any more.
func (sh *shard) compact() {
	if sh.waste < 64 || sh.waste < len(sh.slab)/4 {
		return
	}
	slab := make([]int64, 1, len(sh.slab)-sh.waste+len(sh.slab)/16)
	cursor := 0
	for offset := sh.next(0); offset > 0; offset = sh.next(offset) {
		if offset >= sh.cursor && cursor == 0 {
			cursor = len(slab)
		}
		slab = append(slab, sh.slab[offset:offset+sh.size(offset)]...)
	}
	sh.slab, sh.waste, sh.cursor = slab, 0, cursor
	size := len(sh.index)
	for size > 8 && sh.live*8 < size*2 {
		size /= 2
	}
	sh.reindex(size)
}
