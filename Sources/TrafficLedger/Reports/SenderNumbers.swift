/// Counts the datagrams of one process that never came, by the sequence numbers of the datagrams that came.
///
/// A process has a numbering for each of its monitors and each start of a monitor. All numberings begin at 0, and
/// nothing in a datagram tells them apart. So a number belongs to the nearest numbering in which it has not come yet.
/// The threads of a process may overtake each other. So a number is missing only when ``longestDelay`` later numbers have
/// come, or when nothing more comes. Numbers before the first number that came are not missing.
struct SenderNumbers: Codable {
    /// How far a late number may be behind the newest number.
    static let longestDelay: Int32 = 64
    /// A number further ahead than this belongs to another numbering. So many of the fullest datagrams take minutes.
    private static let longestGap: Int32 = 1 << 16
    static let mostNumberings = 4

    struct Numbering: Codable {
        private var newest: UInt32
        /// Bit n: the number `newest - n` has come.
        private var come: UInt64 = 1
        /// Bit n: the number `newest - n` is missing if it does not come.
        private var due: UInt64 = 1

        fileprivate init(_ first: UInt32) {
            self.newest = first
        }

        /// How far a number is ahead of the newest number. `nil` if the number can't be of this numbering, or has
        /// already come.
        fileprivate func distance(to number: UInt32) -> Int32? {
            let distance = Int32(bitPattern: number &- self.newest)
            guard distance > -SenderNumbers.longestDelay, distance <= SenderNumbers.longestGap else { return nil }
            return distance > 0 || self.come & 1 << UInt64(-distance) == 0 ? distance : nil
        }

        /// - Returns: How many numbers have come too late or never.
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
            let beyond = UInt64(max(0, distance - SenderNumbers.longestDelay))
            return UInt64((missing >> UInt64(max(0, SenderNumbers.longestDelay - distance))).nonzeroBitCount) + beyond
        }

        /// - Returns: How many of the last numbers have not come. The numbering does not wait for them any more.
        fileprivate mutating func stopWaiting() -> UInt64 {
            defer { self.due = 0 }
            return UInt64((self.due & ~self.come).nonzeroBitCount)
        }
    }

    /// The numbering of the last datagram comes first.
    private(set) var numberings: [Numbering] = []
    /// Nothing has come since the last tick.
    private var isQuiet = true

    /// - Returns: How many more datagrams are missing.
    mutating func note(_ number: UInt32) -> UInt64 {
        self.isQuiet = false
        guard let index = self.nearest(to: number) else {
            self.numberings.insert(Numbering(number), at: 0)
            guard self.numberings.count > Self.mostNumberings, var oldest = self.numberings.popLast() else { return 0 }
            return oldest.stopWaiting()
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

    /// If nothing came for a whole tick, the numbers that have not come will not come any more.
    ///
    /// - Returns: How many more datagrams are missing.
    mutating func tick() -> UInt64 {
        defer { self.isQuiet = true }
        return self.isQuiet ? self.stopWaiting() : 0
    }

    /// Stops waiting for numbers that have not come.
    ///
    /// - Returns: How many more datagrams are missing.
    mutating func stopWaiting() -> UInt64 {
        var missing: UInt64 = 0
        for index in self.numberings.indices { missing += self.numberings[index].stopWaiting() }
        return missing
    }
}
