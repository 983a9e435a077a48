/// Cuts the output of an iterator into records. A record may be split over two reads.
package struct RecordSplitter {
    private var partial: [UInt8] = []

    package init() {}

    package mutating func split(_ piece: RawSpan, _ body: (RawSpan) -> Void) {
        var offset = 0
        if !self.partial.isEmpty {
            offset = min(TrafficRecord.size - self.partial.count, piece.byteCount)
            piece.extracting(0..<offset).withUnsafeBytes { self.partial.append(contentsOf: $0) }
            guard self.partial.count == TrafficRecord.size else { return }
            body(self.partial.span.bytes)
            self.partial.removeAll()
        }
        while piece.byteCount - offset >= TrafficRecord.size {
            body(piece.extracting(offset..<offset + TrafficRecord.size))
            offset += TrafficRecord.size
        }
        piece.extracting(offset..<piece.byteCount).withUnsafeBytes { self.partial.append(contentsOf: $0) }
    }
}
