import TestSupport

extension Seeded {
    /// - Parameter range: Not empty.
    mutating func number(_ range: Range<Int>) -> Int { .random(in: range, using: &self) }

    /// True once in `count` times, on average.
    mutating func isOne(in count: Int) -> Bool { self.number(0..<count) == 0 }

    mutating func pick<Element>(_ elements: [Element]) -> Element { elements[self.number(0..<elements.count)] }

    /// Cuts the bytes at random places.
    mutating func split(_ bytes: [UInt8], most: Int = 100) -> [ArraySlice<UInt8>] {
        bytes.pieces(self.cuts(bytes.count, most: most))
    }

    /// Random places to cut `count` bytes at: few places, many, or each place where there are not too many.
    ///
    /// - Parameter most: Limits the number of pieces to about twice this number.
    mutating func cuts(_ count: Int, most: Int = 100) -> [Int] {
        let longest = max(self.pick([1, 3, 20, 200, 2_000]), count / most)
        var (cuts, end) = ([Int](), 0)
        while end < count {
            end += self.number(1..<longest + 1)
            cuts.append(min(count, end))
        }
        return cuts
    }

    /// Changes some of the bytes: changes, removes, repeats or inserts bytes, and uses words of the dictionary.
    mutating func mutate(_ bytes: inout [UInt8], _ dictionary: [[UInt8]], changes: Int) {
        for _ in 0..<changes where !bytes.isEmpty {
            let place = self.number(0..<bytes.count)
            switch self.number(0..<8) {
            case 0: bytes[place] = UInt8(truncatingIfNeeded: self.next())
            case 1: bytes[place] ^= 1 << UInt8(self.number(0..<8))
            case 2: bytes.remove(at: place)
            case 3:
                let end = min(bytes.count, place + self.number(1..<40))
                bytes.insert(contentsOf: Array(bytes[place..<end]), at: self.number(0..<bytes.count))
            case 4: bytes.removeSubrange(place..<min(bytes.count, place + self.number(1..<40)))
            case 5, 6: bytes.insert(contentsOf: self.pick(dictionary), at: place)
            default:
                let word = self.pick(dictionary)
                bytes.replaceSubrange(place..<min(bytes.count, place + word.count), with: word)
            }
        }
    }
}

extension [UInt8] {
    /// - Parameter cuts: In any order. The end is always a cut.
    func pieces(_ cuts: [Int]) -> [ArraySlice<UInt8>] {
        var (pieces, start) = ([ArraySlice<UInt8>](), 0)
        for end in (cuts + [self.count]).sorted() where end > start {
            pieces.append(self[start..<end])
            start = end
        }
        return pieces
    }
}
