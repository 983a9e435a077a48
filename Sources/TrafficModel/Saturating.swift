// The numbers of a capture come from packets that strangers make, and from kernels that may be wrong. If a sum of them
// has no room, it stays at the end of its type: it never traps, and never begins anew. 2^64 bytes are 11.7 years at 400
// Gbit/s.
//
// Numbers that programs report are different: those numbers wrap, see ``MessageBytes``.

infix operator +| : AdditionPrecedence
infix operator -| : AdditionPrecedence
infix operator *| : MultiplicationPrecedence
infix operator +|= : AssignmentPrecedence
infix operator -|= : AssignmentPrecedence

extension FixedWidthInteger {
    /// The sum, or the nearest number of the type.
    package static func +| (left: Self, right: Self) -> Self {
        let (sum, isOver) = left.addingReportingOverflow(right)
        return isOver ? (right < 0 ? .min : .max) : sum
    }

    /// The difference, or the nearest number of the type: for unsigned numbers at least 0.
    package static func -| (left: Self, right: Self) -> Self {
        let (difference, isOver) = left.subtractingReportingOverflow(right)
        return isOver ? (right < 0 ? .max : .min) : difference
    }

    /// The product, or the nearest number of the type.
    package static func *| (left: Self, right: Self) -> Self {
        let (product, isOver) = left.multipliedReportingOverflow(by: right)
        return isOver ? ((left < 0) == (right < 0) ? .max : .min) : product
    }

    package static func +|= (left: inout Self, right: Self) { left = left +| right }

    package static func -|= (left: inout Self, right: Self) { left = left -| right }
}

extension UInt64 {
    /// The distance between the two numbers.
    package func difference(to other: UInt64) -> UInt64 { self > other ? self - other : other - self }
}

extension Duration {
    /// At least 0, at most what 64 bits hold: 584 years.
    package var nanoseconds: UInt64 {
        let (seconds, attoseconds) = self.components
        return UInt64(clamping: seconds) *| 1_000_000_000 +| UInt64(clamping: attoseconds / 1_000_000_000)
    }
}
