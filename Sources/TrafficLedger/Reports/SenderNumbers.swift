/// Which of one process's datagrams never came, by the sequence numbers of those that did.
///
/// A process has as many numberings as it has monitors and starts of them, all from 0, and nothing in a datagram tells them apart: a number
/// belongs to the numbering that it is nearest to and has not come in yet. A process's threads may overtake each other on the way, so a
/// number is missing when ``reach`` later ones have come, or when nothing more comes. What was before the first that was heard is not.
struct SenderNumbers {
    /// Numbers that a late one may be behind the newest.
    static let reach: Int32 = 64
    /// Further ahead than this is another numbering: minutes of the fullest datagrams that there can be.
    private static let longestGap: Int32 = 1 << 16
    static let mostNumberings = 4

    struct Numbering {
        private var newest: UInt32
        /// Bit n: `newest - n` has come.
        private var come: UInt64 = 1
        /// Bit n: `newest - n` is missing if it does not come.
        private var due: UInt64 = 1

        fileprivate init(_ first: UInt32) {
            self.newest = first
        }

        /// How far ahead of the newest a number is. `nil` for one that can't be of this numbering, or has come already.
        fileprivate func distance(to number: UInt32) -> Int32? {
            let distance = Int32(bitPattern: number &- self.newest)
            guard distance > -SenderNumbers.reach, distance <= SenderNumbers.longestGap else { return nil }
            return distance > 0 || self.come & 1 << UInt64(-distance) == 0 ? distance : nil
        }

        /// - Returns: How many have fallen out of reach that had not come.
        fileprivate mutating func note(_ number: UInt32) -> UInt64 {
            let distance = Int32(bitPattern: number &- self.newest)
            guard distance > 0 else {
                self.come |= 1 << UInt64(-distance)
                return 0
            }
            self.newest = number
            let missing = self.due & ~self.come
            // Shifts by 64 and more leave nothing.
            self.come = self.come << UInt64(distance) | 1
            self.due = self.due << UInt64(distance) | ~(UInt64.max << UInt64(distance))
            let beyond = UInt64(max(0, distance - SenderNumbers.reach))
            return UInt64((missing >> UInt64(max(0, SenderNumbers.reach - distance))).nonzeroBitCount) + beyond
        }

        /// - Returns: How many within reach have not come. They are not waited for any more.
        fileprivate mutating func settle() -> UInt64 {
            defer { self.due = 0 }
            return UInt64((self.due & ~self.come).nonzeroBitCount)
        }
    }

    /// The last heard of first.
    private(set) var numberings: [Numbering] = []
    /// Nothing has come since the last tick.
    private var isQuiet = true

    /// - Returns: How many more are missing.
    mutating func note(_ number: UInt32) -> UInt64 {
        self.isQuiet = false
        guard let index = self.nearest(to: number) else {
            self.numberings.insert(Numbering(number), at: 0)
            guard self.numberings.count > Self.mostNumberings, var oldest = self.numberings.popLast() else { return 0 }
            return oldest.settle()
        }
        var numbering = self.numberings.remove(at: index)
        defer { self.numberings.insert(numbering, at: 0) }
        return numbering.note(number)
    }

    private func nearest(to number: UInt32) -> Int? {
        var nearest: (index: Int, distance: Int32)?
        for (index, numbering) in self.numberings.enumerated() {
            guard let distance = numbering.distance(to: number).map(abs) else { continue }
            if nearest.map({ distance < $0.distance }) ?? true { nearest = (index, distance) }
        }
        return nearest?.index
    }

    /// What has not come after a whole tick without anything does not come any more.
    ///
    /// - Returns: How many more are missing.
    mutating func tick() -> UInt64 {
        defer { self.isQuiet = true }
        return self.isQuiet ? self.settle() : 0
    }

    /// The sender is gone.
    ///
    /// - Returns: How many more are missing.
    mutating func settle() -> UInt64 {
        var missing: UInt64 = 0
        for index in self.numberings.indices { missing += self.numberings[index].settle() }
        return missing
    }
}
