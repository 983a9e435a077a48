import CZlib

/// The format of gzip (RFC 1952).
enum Gzip {
    /// - Parameter level: From 1, the fastest, to 9, the smallest.
    static func compressed(_ bytes: [UInt8], level: Int32 = 6) -> [UInt8] {
        var stream = z_stream()
        // Fails only without memory, as any array would.
        guard deflate_begin_gzip(&stream, level) == Z_OK else { fatalError("no memory for zlib") }
        defer { deflateEnd(&stream) }
        var result = [UInt8](repeating: 0, count: Int(deflateBound(&stream, UInt(bytes.count))))
        let count = unsafe bytes.withUnsafeBufferPointer { input in
            unsafe result.withUnsafeMutableBufferPointer { output in
                // zlib does not write there.
                unsafe stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.avail_in = UInt32(input.count)
                unsafe stream.next_out = output.baseAddress
                stream.avail_out = UInt32(output.count)
                // The room is enough for all of it.
                guard unsafe deflate(&stream, Z_FINISH) == Z_STREAM_END else { fatalError("zlib stopped early") }
                return output.count - Int(stream.avail_out)
            }
        }
        return Array(result[..<count])
    }
}
