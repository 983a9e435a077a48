extension Dictionary {
    /// Changes a value in place, if there is a value. Optional chaining would move the value out and back, or even copy
    /// it.
    ///
    /// - Returns: The result of `body`; `nil` if there is no value for the key.
    @discardableResult
    mutating func changeInPlace<Result>(_ key: Key, _ body: (inout Value) -> Result) -> Result? {
        guard let index = self.index(forKey: key) else { return nil }
        return body(&self.values[index])
    }

    /// Changes every value in place. A loop over `keys` would hold a second reference, and so copy the whole table.
    mutating func forEachInPlace(_ body: (inout Value) -> Void) {
        var index = self.values.startIndex
        while index != self.values.endIndex {
            body(&self.values[index])
            self.values.formIndex(after: &index)
        }
    }
}
