import CYAML

/// libyaml's parser: a text as a sequence of events.
final class YAMLEvents {
    struct Event {
        enum Kind: Hashable {
            case documentStart, documentEnd, streamEnd, listStart, listEnd, mappingStart, mappingEnd
            /// - Parameter isPlain: It has no quotes.
            case text(String, isPlain: Bool)
        }

        var kind: Kind
        var position: TextPosition
    }

    private let text: UnsafeMutableBufferPointer<UInt8>
    private let parser: UnsafeMutablePointer<yaml_parser_t>

    /// - Throws: ``ConfigurationProblem`` if the text is not UTF-8, or if there is no memory: a daemon that counts must not
    ///   end because of a reload.
    init(_ text: [UInt8]) throws(ConfigurationProblem) {
        if let position = Self.notUTF8(in: text) {
            throw ConfigurationProblem("not UTF-8: save the file in this encoding", at: position)
        }
        let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
        guard yaml_parser_initialize(parser) == 1 else {
            parser.deallocate()
            throw ConfigurationProblem("no memory to read it", at: nil)
        }
        self.parser = parser
        self.text = .allocate(capacity: text.count)
        _ = self.text.update(fromContentsOf: text)
        yaml_parser_set_input_string(self.parser, self.text.baseAddress, self.text.count)
        yaml_parser_set_encoding(self.parser, YAML_UTF8_ENCODING)
    }

    deinit {
        yaml_parser_delete(self.parser)
        self.parser.deallocate()
        self.text.deallocate()
    }

    /// - Throws: ``ConfigurationProblem`` where the text is no YAML, or has an anchor, an alias or a tag.
    func next() throws(ConfigurationProblem) -> Event {
        while true {
            var event = yaml_event_t()
            guard yaml_parser_parse(self.parser, &event) == 1 else { throw self.syntaxProblem() }
            defer { yaml_event_delete(&event) }
            let position = TextPosition(event.start_mark)
            if let kind = try Self.kind(of: event, at: position) { return Event(kind: kind, position: position) }
        }
    }

    /// - Returns: `nil` for an event that says nothing.
    private static func kind(
        of event: yaml_event_t,
        at position: TextPosition
    ) throws(ConfigurationProblem) -> Event.Kind? {
        switch event.type {
        case YAML_DOCUMENT_START_EVENT: return .documentStart
        case YAML_DOCUMENT_END_EVENT: return .documentEnd
        case YAML_STREAM_END_EVENT: return .streamEnd
        case YAML_SEQUENCE_START_EVENT:
            try self.refuse(event.data.sequence_start.anchor, event.data.sequence_start.tag, at: position)
            return .listStart
        case YAML_SEQUENCE_END_EVENT: return .listEnd
        case YAML_MAPPING_START_EVENT:
            try self.refuse(event.data.mapping_start.anchor, event.data.mapping_start.tag, at: position)
            return .mappingStart
        case YAML_MAPPING_END_EVENT: return .mappingEnd
        case YAML_ALIAS_EVENT:
            throw ConfigurationProblem(
                "aliases (*) are not accepted: write the value here, or in quotes if it begins with *",
                at: position
            )
        case YAML_SCALAR_EVENT:
            let scalar = event.data.scalar
            try self.refuse(scalar.anchor, scalar.tag, at: position)
            let bytes = UnsafeBufferPointer(start: scalar.value, count: scalar.length)
            return .text(
                String(decoding: bytes, as: UTF8.self),
                isPlain: scalar.style == YAML_PLAIN_SCALAR_STYLE
            )
        default: return nil
        }
    }

    private static func refuse(
        _ anchor: UnsafeMutablePointer<yaml_char_t>?,
        _ tag: UnsafeMutablePointer<yaml_char_t>?,
        at position: TextPosition
    ) throws(ConfigurationProblem) {
        if anchor != nil {
            throw ConfigurationProblem(
                "anchors (&) are not accepted: put a value that begins with & in quotes",
                at: position
            )
        }
        if tag != nil {
            throw ConfigurationProblem(
                "tags (!) are not accepted: put a value that begins with ! in quotes",
                at: position
            )
        }
    }

    private func syntaxProblem() -> ConfigurationProblem {
        let parser = self.parser.pointee
        let said = parser.problem.map { String(cString: $0) } ?? "no memory"
        // The reader of characters knows no line.
        if parser.error == YAML_READER_ERROR {
            return ConfigurationProblem("not YAML: \(said)", at: self.position(ofByte: parser.problem_offset))
        }
        let position = TextPosition(parser.problem_mark)
        switch self.byte(at: position) {
        case UInt8(ascii: "\t"): return ConfigurationProblem("a tab: YAML wants blanks", at: position)
        case UInt8(ascii: ":"):
            // Outside brackets, the line may be indented without a section above it.
            let indented = parser.error == YAML_SCANNER_ERROR ? ", or indent the line like the one above" : ""
            return ConfigurationProblem(
                "a colon that YAML does not expect: put a value with colons, such as \"::/0\", in quotes\(indented)",
                at: position
            )
        default: break
        }
        let began = parser.context_mark.line + 1
        let context = parser.context.map { ", \(String(cString: $0)) that begins in line \(began)" } ?? ""
        return ConfigurationProblem("not YAML: \(said)\(context)", at: position)
    }

    // MARK: Places

    private static func notUTF8(in text: [UInt8]) -> TextPosition? {
        var (decoder, bytes) = (UTF8(), text.makeIterator())
        var position = TextPosition(line: 1, column: 1)
        while true {
            switch decoder.decode(&bytes) {
            case .scalarValue(let scalar): position.advance(over: scalar)
            case .emptyInput: return nil
            case .error: return position
            }
        }
    }

    private func position(ofByte offset: Int) -> TextPosition {
        String(decoding: self.text[..<min(offset, self.text.count)], as: UTF8.self).unicodeScalars
            .reduce(into: TextPosition(line: 1, column: 1)) { $0.advance(over: $1) }
    }

    private func byte(at position: TextPosition) -> UInt8? {
        var place = TextPosition(line: 1, column: 1)
        for scalar in String(decoding: self.text, as: UTF8.self).unicodeScalars {
            if place == position { return UInt8(exactly: scalar.value) }
            place.advance(over: scalar)
        }
        return nil
    }
}

extension TextPosition {
    fileprivate init(_ mark: yaml_mark_t) {
        self.init(line: Int(mark.line) + 1, column: Int(mark.column) + 1)
    }

    fileprivate mutating func advance(over scalar: Unicode.Scalar) {
        if scalar == "\n" {
            (self.line, self.column) = (self.line + 1, 1)
        } else {
            self.column += 1
        }
    }
}
