extension Dictionary {
    /// Changes a value where it lies, if there is one. By optional chaining it would be moved out and back, or even copied.
    ///
    /// - Returns: What `body` has given; `nil`: there is no such value.
    @discardableResult
    mutating func changeInPlace<Result>(_ key: Key, _ body: (inout Value) -> Result) -> Result? {
        guard let index = self.index(forKey: key) else { return nil }
        return body(&self.values[index])
    }

    /// Changes every value where it lies. A loop over `keys` would hold a second reference and so copy the whole table.
    mutating func forEachInPlace(_ body: (inout Value) -> Void) {
        var index = self.values.startIndex
        while index != self.values.endIndex {
            body(&self.values[index])
            self.values.formIndex(after: &index)
        }
    }
}
