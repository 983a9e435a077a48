extension Dictionary {
    /// Changes every value where it lies. A loop over `keys` would hold a second reference and so copy the whole table.
    mutating func forEachInPlace(_ body: (inout Value) -> Void) {
        var index = self.values.startIndex
        while index != self.values.endIndex {
            body(&self.values[index])
            self.values.formIndex(after: &index)
        }
    }
}
