import CNIOLLHTTP

/// Finds the messages of one direction with llhttp, the parser that NIO itself has.
final class FloorParser {
    private struct Found {
        var messages = 0
        var fields: UInt64 = 0
    }

    private let parser = UnsafeMutablePointer<llhttp_t>.allocate(capacity: 1)
    private let settings = UnsafeMutablePointer<llhttp_settings_t>.allocate(capacity: 1)
    private let found = UnsafeMutablePointer<Found>.allocate(capacity: 1)

    init(_ type: llhttp_type) {
        self.found.initialize(to: Found())
        c_nio_llhttp_settings_init(self.settings)
        // llhttp hands over what a library needs for a name and for the kinds of bytes.
        self.settings.pointee.on_url = { parser, _, length in FloorParser.take(parser) { $0.fields &+= UInt64(length) }
        }
        self.settings.pointee.on_header_field = { parser, _, _ in FloorParser.take(parser) { $0.fields &+= 1 } }
        self.settings.pointee.on_header_value = { parser, _, length in
            FloorParser.take(parser) { $0.fields &+= UInt64(length) }
        }
        self.settings.pointee.on_message_complete = { parser in FloorParser.take(parser) { $0.messages &+= 1 } }
        c_nio_llhttp_init(self.parser, type, self.settings)
        self.parser.pointee.data = UnsafeMutableRawPointer(self.found)
    }

    deinit {
        self.parser.deallocate()
        self.settings.deallocate()
        self.found.deallocate()
    }

    @inline(__always)
    private static func take(_ parser: UnsafeMutablePointer<llhttp_t>?, _ body: (inout Found) -> Void) -> CInt {
        guard let data = parser?.pointee.data else { return -1 }
        body(&data.assumingMemoryBound(to: Found.self).pointee)
        return 0
    }

    /// - Returns: Messages that end here.
    func read(_ bytes: UnsafeRawBufferPointer) -> Int {
        self.found.pointee.messages = 0
        let result = c_nio_llhttp_execute_swift(self.parser, bytes.baseAddress, bytes.count)
        precondition(result == HPE_OK, "llhttp refuses what passes")
        return self.found.pointee.messages
    }

    /// Of all fields so far.
    var fields: UInt64 { self.found.pointee.fields }
}
