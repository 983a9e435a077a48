import TestSupport

/// How the bytes of a connection come: in which pieces, and in which order of the two directions.
enum HTTP2Delivery {
    struct Piece {
        let isClient: Bool
        var bytes: [UInt8]
        /// The process sends these bytes from a file, and never sees them.
        var isUnseen = false
    }

    /// The frames in their order. Some come in two parts, and frames of the other direction between these parts. Some
    /// bodies come from a file.
    ///
    /// - Parameters:
    ///   - mayTear: Frames may come in parts.
    ///   - fileSender: Whose bodies may come from a file: the client's or the server's. `nil`: nobody's.
    static func pieces(
        _ steps: [HTTP2Writer.Step],
        mayTear: Bool,
        fileSender: Bool?,
        _ random: inout Seeded
    ) -> [Piece] {
        var pieces: [Piece] = []
        // The rest of a frame, and the step behind which it comes.
        var rest: (piece: Piece, behind: Int)?
        for (number, step) in steps.enumerated() {
            let others = mayTear && rest == nil ? Self.quietSteps(steps, behind: number) : 0
            if others > 0, random.isOne(in: 3) {
                let cut = random.number(1..<step.bytes.count)
                pieces.append(Piece(isClient: step.isClient, bytes: Array(step.bytes[..<cut])))
                rest = (Piece(isClient: step.isClient, bytes: Array(step.bytes[cut...])), number + others)
            } else if let body = step.body, !body.isEmpty, fileSender == step.isClient, random.isOne(in: 10) {
                pieces.append(Piece(isClient: step.isClient, bytes: Array(step.bytes[..<body.lowerBound])))
                pieces.append(Piece(isClient: step.isClient, bytes: Array(step.bytes[body]), isUnseen: true))
                pieces.append(Piece(isClient: step.isClient, bytes: Array(step.bytes[body.upperBound...])))
            } else {
                pieces.append(Piece(isClient: step.isClient, bytes: step.bytes))
            }
            if let (piece, behind) = rest, behind == number {
                pieces.append(piece)
                rest = nil
            }
        }
        return pieces.filter { !$0.bytes.isEmpty }
    }

    /// How many steps may come before the last byte of a step.
    private static func quietSteps(_ steps: [HTTP2Writer.Step], behind number: Int) -> Int {
        let step = steps[number]
        let others = steps[(number + 1)...].prefix { other in
            other.isClient != step.isClient && other.isQuiet && (other.body == nil || other.stream != step.stream)
        }
        return step.bytes.count > 1 ? min(others.count, 5) : 0
    }

    /// Joins what follows in the same direction, and cuts it anywhere.
    ///
    /// - Parameter longest: The size of a piece, at most.
    static func cut(_ pieces: [Piece], longest: Int = .max, _ random: inout Seeded) -> [Piece] {
        var joined: [Piece] = []
        for piece in pieces {
            let isNext = joined.last.map { $0.isClient == piece.isClient && !$0.isUnseen && !piece.isUnseen } ?? false
            if isNext { joined[joined.count - 1].bytes += piece.bytes } else { joined.append(piece) }
        }
        var cut: [Piece] = []
        for piece in joined {
            guard !piece.isUnseen else {
                cut.append(piece)
                continue
            }
            var places = random.isOne(in: 3) ? [] : random.cuts(piece.bytes.count)
            if longest < piece.bytes.count { places += stride(from: longest, to: piece.bytes.count, by: longest) }
            cut += piece.bytes.pieces(places).map { Piece(isClient: piece.isClient, bytes: Array($0)) }
        }
        return cut
    }
}
