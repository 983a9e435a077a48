extension Array {
    /// Removes elements one by one until `count` are left, and keeps the memory. For a few elements:
    /// `removeAll(keepingCapacity:)` replaces a range, which costs some hundred instructions even without elements.
    @inlinable
    package mutating func removeFew(downTo count: Int = 0) {
        while self.count > count { self.removeLast() }
    }
}
